"""Hang-ups, in virtual time: how long a request goes on without readers, and what ends it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from actors.control import Control
from actors.core.receipts import CancelReason
from runtime.errors import RequestError
from tests.fakes.engine import FakeEngine, FakeRequest, as_engine, completion, say, token
from web.storage.detached.disconnects import patience_of
from web.storage.detached.makers import StreamMaker
from web.storage.detached.run import Run
from web.storage.detached.runs import RunBounds, Runs, open_runs

BOUNDS = RunBounds(running=4, timeout=100.0, kept_bytes=10**6, tokens=10**6)


class Scene:
    """One request of an engine's, and its first reader."""

    def __init__(self, runs: Runs, run: Run, request: FakeRequest, reader: ExitStack) -> None:
        self.runs = runs
        self.run = run
        self.request = request
        self.began = trio.current_time()
        self._reader = reader

    def hang_up(self) -> None:
        """Let the first reader go."""
        self._reader.close()

    async def cancelled(self) -> tuple[float, CancelReason]:
        """The time of its cancel, from the beginning, and the reason."""
        await self.run.ended.wait()
        (reason, *_) = self.request.cancels
        return trio.current_time() - self.began, reason


@asynccontextmanager
async def scene(bounds: RunBounds = BOUNDS, **control: Any) -> AsyncIterator[Scene]:  # noqa: ANN401
    """A request that generates nothing by itself."""
    engine = FakeEngine()
    asked = completion(stream=True, cede=control)
    async with AsyncExitStack() as stack:
        runs = await stack.enter_async_context(open_runs(as_engine(engine), bounds))
        reader = stack.enter_context(ExitStack())
        run = await runs.start(asked.request, StreamMaker(asked.formatter(), 1e9), ExitStack(), reader)
        yield Scene(runs, run, await engine.next_request(), reader)
        stack.callback(runs.close)


async def test_with_grace_it_goes_on_for_so_long_and_is_cancelled_then(autojump_clock: MockClock) -> None:
    async with scene(grace_s=5) as made:
        await trio.sleep(3)
        made.hang_up()
        assert await made.cancelled() == (8, CancelReason.DISCONNECT)


async def test_who_comes_back_in_time_ends_the_matter(autojump_clock: MockClock) -> None:
    async with scene(grace_s=5) as made:
        made.hang_up()
        await trio.sleep(4)
        with made.run.reading():
            await trio.sleep(50)
        await trio.sleep(4)
        assert made.request.cancels == []
        assert await made.cancelled() == (59, CancelReason.DISCONNECT)


async def test_one_reader_of_several_is_enough(autojump_clock: MockClock) -> None:
    async with scene(grace_s=5) as made:
        with made.run.reading():
            with made.run.reading():
                made.hang_up()
            await trio.sleep(50)
        assert await made.cancelled() == (55, CancelReason.DISCONNECT)


@pytest.mark.parametrize(("grace", "alone"), [(None, 100), (7, 7)])
async def test_detached_it_is_abandoned_in_the_end(
    autojump_clock: MockClock, grace: float | None, alone: float
) -> None:
    async with scene(on_disconnect="detach", grace_s=grace) as made:
        made.hang_up()
        assert await made.cancelled() == (alone, CancelReason.ABANDONED)


async def test_detached_it_generates_so_many_tokens_for_nobody(autojump_clock: MockClock) -> None:
    bounds = RunBounds(running=4, timeout=100.0, kept_bytes=10**6, tokens=3)
    async with scene(bounds, on_disconnect="detach") as made:
        made.request.emit(*[token("a")] * 9)
        await trio.testing.wait_all_tasks_blocked()
        made.hang_up()
        made.request.emit(*[token("a")] * 3)
        await trio.sleep(1)
        assert made.run.status().unread_tokens == 3
        with made.run.reading():
            assert made.run.status().unread_tokens == 0
        made.request.emit(*[token("a")] * 4)
        assert await made.cancelled() == (1, CancelReason.ABANDONED)


async def test_finish_prefill_asks_the_engine_for_that_and_for_no_more(autojump_clock: MockClock) -> None:
    async with scene(on_disconnect="finish_prefill", grace_s=2) as made:
        made.hang_up()
        await trio.sleep(1)
        assert not made.request.prefill_only.is_set()
        await made.request.prefill_only.wait()
        assert trio.current_time() - made.began == 2
        assert await made.cancelled() == (100, CancelReason.ABANDONED)  # it was never read


async def test_one_that_ends_by_itself_is_not_cancelled(autojump_clock: MockClock) -> None:
    async with scene(grace_s=5) as made:
        made.hang_up()
        made.request.emit(*say("a")[:-1])
        await trio.sleep(4)
        made.request.emit(*say()[-1:])
        await made.run.ended.wait()
        await trio.sleep(10)
        assert made.request.cancels == []


@pytest.mark.parametrize(
    ("control", "named"),
    [
        ({"grace_s": 301}, "cede.grace_s"),
        ({"on_disconnect": "detach", "grace_s": 101}, "cede.grace_s"),
        ({"grace_s": 1, "keep_s": 3601}, "cede.keep_s"),
        ({"keep_s": 1}, "cede.keep_s"),
    ],
)
def test_what_is_more_than_the_server_lets_is_refused(control: dict[str, Any], named: str) -> None:
    with pytest.raises(RequestError, match=named):
        BOUNDS.check(Control(**control))


def test_patience_is_bounded_in_any_case() -> None:
    assert patience_of(Control(grace_s=500), 100) == 100
    assert patience_of(Control("finish_prefill"), 100) == 0
