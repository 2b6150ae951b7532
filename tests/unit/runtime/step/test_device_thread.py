"""A function on the device thread may be followed by another, and knows whether the event loop keeps up."""

from __future__ import annotations

import threading

import pytest
import trio

from runtime.step.device_thread import Call, DeviceThread
from tests.unit.runtime.step.executors import PATIENCE


@pytest.mark.parametrize("hears", [True, False])
async def test_the_thread_knows_whether_the_event_loop_has_heard(hears: bool) -> None:
    thread, seen = DeviceThread(), list[bool]()
    go_on, looked = threading.Event(), threading.Event()

    def second() -> None:
        thread.tell()
        if hears:
            assert go_on.wait(PATIENCE)
        seen.append(thread.is_heard())
        looked.set()

    def first() -> Call[None]:
        return thread.begin_next(second)

    thread.start()
    call = thread.begin(first)
    if not hears:
        assert looked.wait(PATIENCE)  # in the event loop, which so hears nothing
    following = await thread.wait(call)
    go_on.set()
    await thread.wait(following)
    assert seen == [hears]
    await thread.stop()


async def test_what_is_not_told_of_by_the_next_is_told_of_at_its_end() -> None:
    thread = DeviceThread()
    thread.start()
    following = await thread.wait(thread.begin(lambda: thread.begin_next(lambda: 7)))
    assert await thread.wait(following) == 7
    assert await thread.call(thread.is_heard)
    await thread.stop()
    assert not thread.hangs
    await trio.lowlevel.checkpoint()
