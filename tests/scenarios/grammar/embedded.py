"""An engine over the embedded model, and what it writes under grammars."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from actors.config import EngineConfig
from actors.core.generation import Failed, Finished, FinishReason, GenerationRequest, Token
from actors.engine import Engine, open_engine
from runtime.errors import CedeError
from runtime.grammar.grammar import Grammar, GrammarKind
from runtime.loading.drafters import plan_drafter
from runtime.loading.load import describe_model, load_model
from runtime.loading.options import LoadOptions
from runtime.loading.served import Proposer
from runtime.sampling.params import SamplingParams
from runtime.step.executor import InlineExecutor
from runtime.store.resolve import embedded_draft, resolve_model

GREEDY = SamplingParams(temperature=0)
CONTEXT = 512


def schema(**members: object) -> Grammar:
    """A JSON schema, given by its members."""
    return Grammar(GrammarKind.JSON_SCHEMA, json.dumps(members), "response_format")


def closed(**properties: object) -> Grammar:
    """The schema of an object with just these properties, all of them required."""
    return schema(type="object", properties=properties, required=[*properties], additionalProperties=False)


@dataclass
class Written:
    """Output of one generation."""

    tokens: list[int] = field(default_factory=list)
    text: str = ""
    deltas: int = 0  # that had text
    finished: Finished | None = None
    error: CedeError | None = None

    @property
    def reason(self) -> FinishReason:
        """Return why it ended."""
        assert self.finished is not None, self.error
        return self.finished.reason

    @property
    def value(self) -> Any:  # noqa: ANN401
        """The text as JSON."""
        return json.loads(self.text)


@asynccontextmanager
async def open_embedded(
    proposer: Proposer = Proposer.OFF, *, draft_tokens: int | None = 3, slots: int = 4
) -> AsyncIterator[Engine]:
    """Open an engine over the embedded model, which drafts as `proposer` says."""
    draft = embedded_draft() if proposer is Proposer.DRAFT else None
    options = LoadOptions(
        resolve_model(None), slots=slots, context=CONTEXT, dtype="float32", threads=1, speculate=proposer, draft=draft
    )
    served, checkpoint = describe_model(options, "embedded")
    plan = plan_drafter(options, checkpoint, served.tokenizer)
    target = load_model(options, checkpoint, plan)
    executor = InlineExecutor(target, plan.load(target))
    config = EngineConfig(slots=slots, queue=100, chunk_tokens=16, speculate=proposer, draft_tokens=draft_tokens)
    async with open_engine(executor, served, config) as engine:
        yield engine
        engine.check_integrity()


async def write(
    engine: Engine,
    name: str,
    grammar: Grammar | None,
    *,
    prompt: str = "import os\n\n# the configuration as JSON\nconfig = ",
    hang_up_after: int | None = None,
    sampling: SamplingParams = GREEDY,
    max_tokens: int = 160,
    **more: Any,  # noqa: ANN401  GenerationRequest's
) -> Written:
    """Ask for a text; hang up after some tokens, if told so."""
    ids = tuple(engine.model.tokenizer.encode(prompt))
    asked = GenerationRequest(name, (ids,), sampling, max_tokens=max_tokens, grammar=grammar, continues=True, **more)
    written = Written()
    async with engine.open_request(asked) as request:
        async for event in request:
            if isinstance(event, Failed):
                written.error = event.error
                continue
            assert isinstance(event, Token | Finished), "no scores are wanted"
            written.text += event.text
            written.deltas += bool(event.text)
            if isinstance(event, Finished):
                written.finished = event
            elif isinstance(event, Token):
                written.tokens.append(event.token_id)
                if len(written.tokens) == hang_up_after:
                    break
    return written
