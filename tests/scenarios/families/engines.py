"""An engine over a small checkpoint, with everything that a server has but its connections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from actors.config import EngineConfig
from actors.core.generation import Failed, Finished, GenerationRequest, Token
from actors.engine import Engine, open_engine
from actors.kv.config import CacheConfig, TierOptions
from actors.kv.opening import open_prefix_cache
from runtime.common.units import MIB
from runtime.loading.drafters import plan_drafter
from runtime.loading.load import describe_model, load_model
from runtime.loading.options import LoadOptions
from runtime.loading.served import Proposer
from runtime.sampling.params import SamplingParams
from runtime.step.executor import InlineExecutor

CHUNK = 24  # rows of a prompt that are read in a step
GREEDY = SamplingParams(temperature=0)


@asynccontextmanager
async def open_family(
    folder: Path,
    *,
    slots: int = 2,
    speculate: Proposer = Proposer.OFF,
    draft: Path | None = None,
    disk: Path | None = None,
    audit_share: float = 0.0,
    chunk: int = CHUNK,
    burst_seconds: float | None = 0.008,
    drafts: int = 3,
    **options: Any,  # noqa: ANN401
) -> AsyncIterator[Engine]:
    """Open an engine over the model in `folder`, in float32; whatever was restored, its books agree in the end.

    Args:
        folder: of the checkpoint.
        slots: of the engine.
        speculate: where drafts come from.
        draft: the draft model's folder.
        disk: the disk tier's folder; None for the memory tier alone.
        audit_share: of the cache's hits.
        chunk: rows of a prompt that are read in a step.
        burst_seconds: for how long tokens are gathered; None for no bursts.
        drafts: how many tokens are drafted at a time.
        options: others of how it is loaded.
    """
    given: dict[str, Any] = {"device": "cpu", "dtype": "float32", "threads": 1} | options
    load = LoadOptions(folder, slots=slots, speculate=speculate, draft=draft, **given)
    served, checkpoint = describe_model(load, "small")
    plan = plan_drafter(load, checkpoint, served.tokenizer)
    target = load_model(load, checkpoint, plan)
    executor = InlineExecutor(target, plan.load(target))
    tiers = TierOptions(ram=0 if checkpoint.config.is_hybrid else 64 * MIB, folder=disk)
    config = EngineConfig(
        slots, 8, chunk_tokens=chunk, speculate=speculate, draft_tokens=drafts, burst_seconds=burst_seconds
    )
    identity = checkpoint.fingerprint()
    served = replace(served, state_buffers=0 if target.buffers is None else target.buffers.count)
    async with (
        open_prefix_cache(tiers, CacheConfig(audit_share=audit_share), checkpoint, identity, target.kv) as cache,
        open_engine(executor, served, config, cache) as engine,
    ):
        yield engine
        engine.check_integrity()


@dataclass
class Answer:
    """Answer that a client has got: tokens, and the last event where it stayed until then."""

    tokens: list[int] = field(default_factory=list)
    finished: Finished | None = None

    @property
    def cached(self) -> int:
        """Tokens of the prompt whose KV was there already."""
        assert self.finished is not None
        return self.finished.cached_tokens


async def ask(
    engine: Engine,
    name: str,
    prompt: Sequence[int],
    tokens: int,
    *,
    hang_up_after: int | None = None,
    sampling: SamplingParams = GREEDY,
    prediction: Sequence[int] = (),
) -> Answer:
    """Ask for a text of so many tokens, greedy unless `sampling` is given; hang up after some of them, if told so."""
    answer = Answer()
    request = GenerationRequest(
        name, (tuple(prompt),), sampling, max_tokens=tokens, ignore_eos=True, prediction=tuple(prediction)
    )
    async with engine.open_request(request) as events:
        async for event in events:
            assert not isinstance(event, Failed), event.error
            if isinstance(event, Finished):
                answer.finished = event
            if isinstance(event, Token):
                answer.tokens.append(event.token_id)
                if len(answer.tokens) == hang_up_after:
                    break
    return answer
