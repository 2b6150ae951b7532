"""An editor that asks anew with each keystroke, on a server that knows nothing of successors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.client.scenarios.autocomplete import Autocomplete
from tests.unit.bench.client.scenarios.turns import RUDE, values_of

if TYPE_CHECKING:
    from trio.testing import MockClock

SERIES = Autocomplete(prompt=50, rate=20, seconds=1, tokens=30)


async def test_the_client_hangs_up_on_all_but_the_last(autojump_clock: MockClock) -> None:
    found = await values_of(SERIES)
    assert found["answered in full", ""] == 1
    assert 0.3 < found["last token of the last", ""] < 0.5, "thirty tokens, a hundred a second, and little of a prompt"


async def test_a_server_that_reads_on_keeps_the_last_one_waiting(autojump_clock: MockClock) -> None:
    rude, plain = await values_of(SERIES, RUDE), await values_of(SERIES)
    assert rude["first token of the last", ""] > plain["first token of the last", ""]
