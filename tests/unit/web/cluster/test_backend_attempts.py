"""Attempts of one request at one worker."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.live.server import PATIENCE
from web.cluster.backend import Attempts


async def test_a_later_attempt_waits_for_the_earlier_and_another_request_for_nobody() -> None:
    seen: list[str] = []

    async def serve(name: str, request_id: str, end: trio.Event) -> None:
        async with attempts.alone(request_id):
            seen.append(name)
            await end.wait()

    attempts, first, second = Attempts(), trio.Event(), trio.Event()
    async with trio.open_nursery() as nursery:
        for name, request_id, end in (("a", "r", first), ("b", "r", second), ("c", "s", second)):
            nursery.start_soon(serve, name, request_id, end)
            await trio.testing.wait_all_tasks_blocked()
        assert seen == ["a", "c"]
        first.set()
        await trio.testing.wait_all_tasks_blocked()
        assert seen == ["a", "c", "b"]
        second.set()


async def test_one_that_gives_up_waiting_is_in_nobodys_way() -> None:
    attempts, end = Attempts(), trio.Event()
    async with trio.open_nursery() as nursery, attempts.alone("r"):
        with trio.CancelScope() as scope:
            nursery.start_soon(trio.testing.wait_all_tasks_blocked)
            scope.cancel()
            async with attempts.alone("r"):
                pytest.fail("it is not alone")
        end.set()
    with trio.fail_after(PATIENCE):
        async with attempts.alone("r"):
            assert end.is_set()
