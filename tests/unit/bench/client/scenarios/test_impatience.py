"""An impatient client, on servers that remember what they have read, and on those that do not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from trio.testing import MockClock

from bench.client.scenarios.impatience import Impatience
from tests.unit.bench.client.scenarios.turns import PLAIN, RUDE, values_of


async def test_each_attempt_has_less_to_read(autojump_clock: MockClock) -> None:
    found = await values_of(Impatience(prompt=1000, attempts=3, patience=0.25))
    left = [found["left to read", f"attempt {number}"] for number in (1, 2, 3, 4)]
    assert left[0] == 1000
    assert left == sorted(left, reverse=True)
    assert len(set(left)) == 4
    assert found["attempts", ""] == 4
    assert found["of the time of the whole prompt", "at last"] < 0.5


async def test_a_server_that_remembers_needs_no_patient_attempt(autojump_clock: MockClock) -> None:
    found = await values_of(Impatience(prompt=1000, attempts=9, patience=0.4))
    assert found["attempts", ""] < 9
    assert ("of the time of the whole prompt", "at last") not in found


async def test_a_server_that_reads_on_and_forgets_gets_slower(autojump_clock: MockClock) -> None:
    found = await values_of(Impatience(prompt=1000, attempts=4), RUDE)
    assert found["of the time of the whole prompt", "at last"] > 2
    assert found["left to read", "attempt 5"] == 1000


async def test_without_receipts_only_the_last_attempt_tells(autojump_clock: MockClock) -> None:
    found = await values_of(Impatience(prompt=1000, attempts=2), replace(PLAIN, receipts=False))
    assert ("left to read", "attempt 1") not in found
    assert found["left to read", "attempt 3"] == pytest.approx(500, abs=2 * 64)  # a chunk is lost with each hang-up
