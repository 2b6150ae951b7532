"""A real, small model: what one says that was preempted is what it says alone, with penalties, seeds and drafts."""

from __future__ import annotations

import pytest
import trio

from actors.core.generation import Failed, GenerationRequest, Token
from runtime.loading.served import Proposer
from runtime.sampling.params import SamplingParams
from runtime.store.resolve import resolve_model
from tests.scenarios.families.engines import open_family

TOKENS = 60
PROMPT = tuple(3 + (i * 37) % 900 for i in range(150))
SAMPLINGS = {
    "greedy": SamplingParams(temperature=0, logprobs=2),
    "sampled": SamplingParams(temperature=0.9, seed=7, top_p=0.95, logprobs=2),
    "penalties": SamplingParams(temperature=0, frequency_penalty=1.5, presence_penalty=1.0, repetition_penalty=1.3),
    "sampled, with penalties": SamplingParams(temperature=0.7, seed=9, presence_penalty=1.5, frequency_penalty=0.5),
}


async def get(asked: GenerationRequest, engine: object, tokens: list[Token]) -> None:
    """Read all that is generated."""
    async with engine.open_request(asked) as events:  # type: ignore[attr-defined]
        async for event in events:
            assert not isinstance(event, Failed), event.error
            if isinstance(event, Token):
                tokens.append(event)


async def run(sampling: SamplingParams, speculate: Proposer, preemptions: int) -> tuple[list[Token], int]:
    """Return what one gets that is preempted so often, and how often it was."""
    asked = GenerationRequest("low", (PROMPT,), sampling, max_tokens=TOKENS, ignore_eos=True, priority=10)
    tokens: list[Token] = []
    # Who is preempted is so between two steps, of which none is to come meanwhile: the others wait for so many tokens.
    together = None if preemptions else 0.008
    async with open_family(resolve_model(None), slots=1, speculate=speculate, burst_seconds=together) as engine:
        async with trio.open_nursery() as clients:
            clients.start_soon(get, asked, engine, tokens)
            for number in range(preemptions):
                while len(tokens) < 10 * (number + 1):
                    await trio.lowlevel.checkpoint()
                greedy = SamplingParams(temperature=0)
                urgent = GenerationRequest(
                    f"high{number}", ((5, 6, 7 + number),), greedy, max_tokens=3, ignore_eos=True
                )
                await get(urgent, engine, [])
        return tokens, engine.statistics().manager.resumes


@pytest.mark.parametrize("speculate", [Proposer.OFF, Proposer.NGRAM, Proposer.MTP])
@pytest.mark.parametrize("name", SAMPLINGS)
async def test_what_is_said_is_what_is_said_alone(name: str, speculate: Proposer) -> None:
    alone, _ = await run(SAMPLINGS[name], Proposer.OFF, 0)
    tokens, resumes = await run(SAMPLINGS[name], speculate, 3)
    assert resumes == 3
    assert [token.token_id for token in tokens] == [token.token_id for token in alone]
    for mine, theirs in zip(tokens, alone, strict=True):
        if theirs.logprobs is not None:
            assert mine.logprobs is not None
            assert mine.logprobs.logprob == pytest.approx(theirs.logprobs.logprob, abs=1e-3)
