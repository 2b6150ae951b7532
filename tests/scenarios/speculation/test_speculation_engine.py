"""A hundred prompts through an engine over the embedded models: with drafts, greedy text is what it is without."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from actors.config import EngineConfig
from actors.core.generation import Failed, GenerationRequest, Token
from actors.engine import Engine, open_engine
from runtime.loading.drafters import plan_drafter
from runtime.loading.load import describe_model, load_model
from runtime.loading.options import LoadOptions
from runtime.loading.served import Proposer
from runtime.sampling.params import SamplingParams
from runtime.step.executor import InlineExecutor
from runtime.store.resolve import embedded_draft, resolve_model
from tests.models.step_driver import random_tokens

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from runtime.sampling.tokens import TokenLogprobs

PROMPTS = 100
TOKENS = 10
TIE = 1e-3  # in log-probability: two tokens this close may change places with the shape of a batch
WORDS = ("import os\n", "def main(argv):\n", "    return self.", "for name in ", "\nclass ", "None\n", "if not ", "'''")
LINE = "\n        self.value = value"


@asynccontextmanager
async def open_embedded(proposer: Proposer, draft_tokens: int) -> AsyncIterator[Engine]:
    draft = embedded_draft() if proposer is Proposer.DRAFT else None
    options = LoadOptions(
        resolve_model(None), slots=4, context=128, dtype="float32", threads=1, speculate=proposer, draft=draft
    )
    served, config = describe_model(options, "embedded")
    plan = plan_drafter(options, config, served.tokenizer)
    target = load_model(options, config, plan)
    executor = InlineExecutor(target, plan.load(target))
    settings = EngineConfig(slots=4, queue=PROMPTS, chunk_tokens=16, speculate=proposer, draft_tokens=draft_tokens)
    async with open_engine(executor, served, settings) as engine:
        yield engine
        engine.check_integrity()


async def ask(engine: Engine, i: int, prompt: Sequence[int], *, speculate: bool, into: dict[int, list[Token]]) -> None:
    params = SamplingParams(temperature=0, logprobs=2)
    asked = GenerationRequest(
        f"{i}/{speculate}", (tuple(prompt),), params, max_tokens=TOKENS, ignore_eos=True, speculate=speculate
    )
    into[i] = []
    async with engine.open_request(asked) as request:
        async for event in request:
            assert not isinstance(event, Failed), event.error
            if isinstance(event, Token):
                into[i].append(event)


@pytest.fixture(scope="module")
def prompts() -> list[list[int]]:
    """Code, noise, and code that is in the midst of saying one line again and again, of one to sixty tokens."""
    options = LoadOptions(resolve_model(None))
    encode = describe_model(options, "embedded")[0].tokenizer.encode
    texts = []
    for i in range(PROMPTS):
        code = encode("".join(WORDS[(i * 3 + j * j) % len(WORDS)] for j in range(1 + i % 7)))
        again = [*code, *encode(LINE * (4 + i % 3))[:-3]]
        texts.append([code, random_tokens(1 + i % 40, below=4096, seed=i), again][i % 3])
    return texts


@pytest.fixture(scope="module")
def plain(prompts: list[list[int]]) -> dict[int, list[Token]]:
    """Return what each prompt gets alone and without drafts, whoever could draft."""
    answers: dict[int, list[Token]] = {}

    async def ask_all() -> None:
        async with open_embedded(Proposer.OFF, 1) as engine:
            for i, tokens in enumerate(prompts):
                await ask(engine, i, tokens, speculate=False, into=answers)

    trio.run(ask_all)
    return answers


def is_same(drafted: Sequence[Token], plain: Sequence[Token]) -> bool:
    """Token for token, but that what follows an exact tie is not compared."""
    for ours, theirs in zip(drafted, plain, strict=True):
        if ours.token_id != theirs.token_id:
            return _is_tied(theirs.logprobs)
    return True


def _is_tied(logprobs: TokenLogprobs | None) -> bool:
    assert logprobs is not None
    (_, best), (_, second) = logprobs.top
    return best - second < TIE


@pytest.mark.parametrize("draft_tokens", [1, 3, 8])
@pytest.mark.parametrize("proposer", [Proposer.NGRAM, Proposer.DRAFT, Proposer.MTP])
async def test_a_hundred_prompts(
    prompts: list[list[int]], plain: dict[int, list[Token]], proposer: Proposer, draft_tokens: int
) -> None:
    """A share of them for each number of drafts: with drafts alone, and with drafts in company."""
    share = range(draft_tokens - 1, PROMPTS, 8)
    alone: dict[int, list[Token]] = {}
    together: dict[int, list[Token]] = {}
    async with open_embedded(proposer, draft_tokens) as engine:
        for i in share:
            await ask(engine, i, prompts[i], speculate=True, into=alone)
        async with trio.open_nursery() as clients:
            for i in share:
                company = partial(ask, engine, i, prompts[i], speculate=i % 4 != 0, into=together)
                clients.start_soon(company)
        assert engine.statistics().speculation.accepted_tokens > 0
    for i in share:
        assert is_same(alone[i], plain[i]), i
        assert is_same(together[i], plain[i]), i
