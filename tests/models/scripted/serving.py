"""The application, in this process, over a whole engine with a scripted model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2

from actors.config import EngineConfig
from actors.engine import open_engine
from runtime.loading.drafters import plan_drafter
from runtime.loading.load import describe_model, load_model
from runtime.loading.options import LoadOptions
from runtime.loading.served import Proposer
from runtime.step.executor import InlineExecutor
from web.serving.app import create_app


@asynccontextmanager
async def open_scripted(folder: Path, proposer: Proposer, *, context: int = 2048) -> AsyncIterator[httpx2.AsyncClient]:
    """Open a client of a scripted model, whose tokens are drafted as `proposer` says; its draft model is itself."""
    draft = folder if proposer is Proposer.DRAFT else None
    options = LoadOptions(folder, slots=2, context=context, dtype="float32", threads=1, speculate=proposer, draft=draft)
    served, checkpoint = describe_model(options, "scripted")
    plan = plan_drafter(options, checkpoint, served.tokenizer)
    target = load_model(options, checkpoint, plan)
    executor = InlineExecutor(target, plan.load(target))
    config = EngineConfig(slots=2, speculate=proposer)
    async with open_engine(executor, served, config) as engine:
        transport = httpx2.ASGITransport(app=create_app(engine))  # type: ignore[arg-type]  # Quart's types
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client
        engine.check_integrity()
