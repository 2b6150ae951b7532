"""Trio beside asyncio."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import NoReturn

import pytest
import trio
import trio.testing

from tests.live.server import PATIENCE
from web.cluster.guest import from_asyncio, from_trio, run_as_guest


def test_a_trio_program_runs_to_its_end_beside_asyncio() -> None:
    seen: list[object] = []

    async def answer() -> int:
        await asyncio.sleep(0)
        return 7

    async def main() -> None:
        await trio.lowlevel.checkpoint()
        seen.append(await from_asyncio(answer()))

    run_as_guest(main)
    assert seen == [7]


def test_its_error_is_the_callers() -> None:
    async def main() -> NoReturn:
        await trio.lowlevel.checkpoint()
        raise KeyError("x")

    with pytest.raises(KeyError):
        run_as_guest(main)


def test_an_error_of_asyncios_is_raised_in_the_task_that_waits() -> None:
    async def fail() -> NoReturn:
        await asyncio.sleep(0)
        raise LookupError

    async def main() -> None:
        with pytest.raises(LookupError):
            await from_asyncio(fail())

    run_as_guest(main)


def test_a_cancel_cancels_what_is_waited_for() -> None:
    ended: list[str] = []

    async def endless(begun: trio.Event) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("endless")

    async def main() -> None:
        begun = trio.Event()

        async def cancel_when_begun(scope: trio.CancelScope) -> None:
            await begun.wait()
            scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel_when_begun, nursery.cancel_scope)
            await from_asyncio(endless(begun))
        assert nursery.cancel_scope.cancelled_caught
        assert ended == ["endless"]

    run_as_guest(main)


def test_a_task_of_trios_is_waited_for_from_asyncio() -> None:
    async def seven() -> int:
        await trio.lowlevel.checkpoint()
        return 7

    async def fail() -> int:
        await trio.lowlevel.checkpoint()
        raise KeyError("x")

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            seen.append(await from_asyncio(from_trio(nursery, seven)))
            with pytest.raises(KeyError):
                await from_asyncio(from_trio(nursery, fail))

    seen = list[int]()
    run_as_guest(main)
    assert seen == [7]


def test_a_task_that_nobody_waits_for_any_longer_is_cancelled() -> None:
    async def for_ever() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            waiting = asyncio.ensure_future(from_trio(nursery, for_ever))
            await trio.testing.wait_all_tasks_blocked()
            waiting.cancel()
            with trio.fail_after(PATIENCE):
                await ended.wait()

    ended = trio.Event()
    run_as_guest(main)
    assert ended.is_set()


def test_what_does_not_end_although_it_is_cancelled_is_left_behind(caplog: pytest.LogCaptureFixture) -> None:
    async def deaf() -> None:
        while not over.is_set():
            with suppress(asyncio.CancelledError):
                await over.wait()

    async def main() -> None:
        with trio.move_on_after(1) as patience:
            await from_asyncio(deaf())
        assert patience.cancelled_caught
        over.set()

    over = asyncio.Event()
    run_as_guest(main, trio.testing.MockClock(autojump_threshold=0.01))
    assert "left behind" in caplog.text
