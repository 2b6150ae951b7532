"""An editor that asks anew with each keystroke, on a server that knows nothing of successors."""

from __future__ import annotations

from dataclasses import replace

from trio.testing import MockClock

from bench.client.scenarios.autocomplete import Autocomplete
from tests.unit.bench.client.scenarios.turns import PLAIN, RUDE, values_of

SERIES = Autocomplete(prompt=50, rate=20, seconds=1, tokens=30)


async def test_the_client_hangs_up_on_all_but_the_last(autojump_clock: MockClock) -> None:
    found = await values_of(SERIES)
    assert found["answered in full", "the newest"] == 1
    assert found["answered in full", "others"] == 0
    assert 0.3 < found["last token of the last", ""] < 0.5, "thirty tokens, a hundred a second, and little of a prompt"


async def test_a_server_that_reads_on_keeps_the_last_one_waiting(autojump_clock: MockClock) -> None:
    rude, plain = await values_of(SERIES, RUDE), await values_of(SERIES)
    assert rude["first token of the last", ""] > plain["first token of the last", ""]


async def test_who_answers_the_others_too_is_seen(autojump_clock: MockClock) -> None:
    slow_to_type = replace(SERIES, rate=2, seconds=2)
    found = await values_of(slow_to_type)
    assert (found["answered in full", "the newest"], found["answered in full", "others"]) == (1, 3)


async def test_a_newest_answer_that_is_cut_is_none(autojump_clock: MockClock) -> None:
    found = await values_of(SERIES, replace(PLAIN, stops_after=3))
    assert found["answered in full", "the newest"] == 0


async def test_waste_is_told_in_chunks_where_their_size_is_known(autojump_clock: MockClock) -> None:
    found = await values_of(replace(SERIES, chunk=64), replace(PLAIN, wastes=96))
    assert found["wasted by one that was superseded", "at most"] == 96
    assert found["wasted by one that was superseded", "in chunks"] == 1.5
    unknown = await values_of(SERIES, replace(PLAIN, wastes=96))
    assert ("wasted by one that was superseded", "in chunks") not in unknown
