"""Trio beside asyncio."""

from __future__ import annotations

import asyncio
from typing import NoReturn

import pytest
import trio

from web.cluster.guest import from_asyncio, run_as_guest


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
