"""Requests that say which tokens an output may have, which end it, or that it is to have none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from actors.core.generation import FinishReason
from actors.engine import Engine
from runtime.loading.served import Proposer
from runtime.sampling.params import SamplingParams
from runtime.text.stop_strings import StopAutomaton
from tests.scenarios.grammar.embedded import GREEDY, open_embedded, write

LENGTH = 24


@pytest.fixture(params=[Proposer.OFF, Proposer.NGRAM, Proposer.MTP], ids=str)
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    async with open_embedded(request.param) as engine:
        yield engine


async def test_a_token_of_the_requests_ends_an_output_as_an_end_token_does(engine: Engine) -> None:
    free = await write(engine, "free", None, max_tokens=LENGTH, ignore_eos=True)
    end = free.tokens[LENGTH // 2]
    cut = free.tokens.index(end)
    written = await write(engine, "ends", None, max_tokens=LENGTH, ignore_eos=True, end_ids=(end,))
    assert (written.tokens, written.reason) == (free.tokens[: cut + 1], FinishReason.STOP)
    assert free.text.startswith(written.text)
    late = SamplingParams(temperature=0, min_tokens=cut + 2)
    longer = await write(engine, "late", None, max_tokens=LENGTH, ignore_eos=True, end_ids=(end,), sampling=late)
    assert len(longer.tokens) >= cut + 2


async def test_no_token_is_drawn_but_those_allowed(engine: Engine) -> None:
    free = await write(engine, "free", None, max_tokens=LENGTH, ignore_eos=True)
    allowed = tuple(set(free.tokens[3:8]))
    for name, sampling in {"greedy": GREEDY, "random": SamplingParams(temperature=1.5, seed=3)}.items():
        written = await write(
            engine, name, None, max_tokens=LENGTH, ignore_eos=True, allowed=allowed, sampling=sampling
        )
        assert len(written.tokens) == LENGTH
        assert set(written.tokens) <= set(allowed)
    assert not set(free.tokens) <= set(allowed)


async def test_bad_words_do_not_come_whatever_is_drafted(engine: Engine) -> None:
    free = await write(engine, "free", None, max_tokens=LENGTH, ignore_eos=True)
    one, *pair = free.tokens[2], *free.tokens[8:10]
    words = ((one,), tuple(pair), (*free.tokens[12:14], one))
    for name, sampling in {"greedy": GREEDY, "random": SamplingParams(temperature=1.5, seed=3)}.items():
        asked = replace(sampling, bad_words=words)
        written = await write(engine, name, None, max_tokens=LENGTH, ignore_eos=True, sampling=asked)
        assert not has_any(words, written.tokens)
        async with open_embedded(Proposer.OFF) as plain:
            alone = await write(plain, name, None, max_tokens=LENGTH, ignore_eos=True, sampling=asked)
        assert written.tokens == alone.tokens
    assert has_any(words, free.tokens)


def has_any(words: Sequence[Sequence[int]], tokens: Sequence[int]) -> bool:
    return any(
        tuple(tokens[start : start + len(word)]) == tuple(word) for word in words for start in range(len(tokens))
    )


async def test_a_stop_string_may_be_part_of_the_output(engine: Engine) -> None:
    free = await write(engine, "free", None, max_tokens=LENGTH, ignore_eos=True)
    stop = free.text[5:9]
    end = free.text.index(stop)
    for kept in (False, True):
        stops = StopAutomaton([stop], kept=kept)
        written = await write(engine, f"{kept}", None, max_tokens=LENGTH, ignore_eos=True, stop=stops)
        assert written.text == free.text[: end + len(stop) * kept]
        assert written.finished is not None
        assert (written.reason, written.finished.stop_string) == (FinishReason.STOP, stop)


async def test_a_prompt_alone_is_read_and_kept(engine: Engine) -> None:
    prompt = "import os\nimport sys\n" * 8
    written = await write(engine, "prompt", None, prompt=prompt, max_tokens=0)
    assert (written.tokens, written.text, written.reason) == ([], "", FinishReason.LENGTH)
    assert written.finished is not None
    assert written.finished.completion_tokens == 0
    again = await write(engine, "again", None, prompt=prompt, max_tokens=2)
    assert again.finished is not None
    assert again.finished.cached_tokens == again.finished.prompt_tokens - 1


async def test_a_prediction_that_is_right_is_accepted_and_changes_nothing() -> None:
    async with open_embedded(Proposer.MTP) as engine:
        free = await write(engine, "free", None, max_tokens=96, ignore_eos=True, speculate=False)
        predicted = await write(
            engine, "predicted", None, max_tokens=96, ignore_eos=True, prediction=tuple(free.tokens)
        )
        wrong = await write(
            engine, "wrong", None, max_tokens=96, ignore_eos=True, prediction=tuple(reversed(free.tokens))
        )
    assert predicted.tokens == wrong.tokens == free.tokens
    assert predicted.finished is not None
    assert predicted.finished.timings.draft_n_accepted > 40
