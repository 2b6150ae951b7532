"""The CPU time of the event loop: each case is served, and time in which the thread only waits does not count."""

from __future__ import annotations

import time

import pytest
import trio

from bench.engine.event_loop.client import CASES, STREAMED
from bench.engine.event_loop.cpu_time import open_served, per_token, report, seconds_each
from bench.engine.event_loop.shares import owner, profiled, table


async def test_each_case_is_served_in_less_time_of_the_thread_than_of_the_wall() -> None:
    async with open_served() as client:
        for case in CASES:
            began = time.perf_counter()
            seconds = await seconds_each(client, case, 2)
            assert 0 < 2 * seconds < time.perf_counter() - began


async def test_a_client_that_cannot_be_served_is_an_error() -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(ConnectionError, match="gave up over 'nothing'"), flatten_subgroups=True):
        async with open_served() as client:
            await client.run("nothing", 1)


def test_a_token_costs_what_a_stream_costs_beyond_its_first() -> None:
    assert per_token(stream=1.0 + 2.0 * (STREAMED - 1), one=1.0) == 2.0


def test_a_line_has_the_median_the_least_and_the_most() -> None:
    line = "2.000 ms (1.000 to 4.000): one token, on a connection of its own"
    assert report({"new": [0.004, 0.001, 0.002]}) == [line]


async def test_a_profile_is_added_up_by_who_has_the_code() -> None:
    with profiled() as found:
        await trio.lowlevel.checkpoint()
        report({"new": [1.0]})
    lines = table(found, requests=1)
    assert any(line.endswith("  bench/engine") for line in lines)
    assert any(line.endswith("  trio") for line in lines)


def test_a_library_s_code_is_the_library_s() -> None:
    assert owner((trio.lowlevel.__file__, 1, "f")) == "trio"
    assert owner((time.__name__, 1, "f")) == "python"
