"""The owner of the requests that may outlive their clients: its bounds, and their ends, in virtual time."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from actors.core.receipts import CancelReason
from runtime.errors import QueueFull
from tests.fakes.engine import FakeEngine, as_engine, completion, say, token
from web.storage.detached.makers import StreamMaker, WholeMaker
from web.storage.detached.run import Run
from web.storage.detached.runs import Maker, RunBounds, Runs, RunsFull, open_runs


async def begin(runs: Runs, keep: float | None = None, place: ExitStack | None = None) -> Run:
    asked = completion(stream=True, cede={"on_disconnect": "detach", "keep_s": keep})
    return await runs.start(asked.request, StreamMaker(asked.formatter(), 1e9), place or ExitStack())


@pytest.mark.parametrize(("keep", "kept"), [(None, 300), (7.5, 7.5), (0, 0)])
async def test_an_answer_is_kept_for_as_long_as_was_asked(
    autojump_clock: MockClock, keep: float | None, kept: float
) -> None:
    async with open_runs(as_engine(FakeEngine(say("a"))), RunBounds(4, 100.0, 10**6)) as runs:
        run = await begin(runs, keep)
        await run.ended.wait()
        if kept:
            await trio.sleep(kept - 0.1)
            assert runs.find(run.id, None) is run
        await trio.sleep(0.2)
        assert runs.find(run.id, None) is None
        assert runs.statistics().kept == 0


async def test_only_so_many_run_and_a_refused_one_takes_no_place() -> None:
    engine = FakeEngine([token("a")])
    async with open_runs(as_engine(engine), RunBounds(2, 100.0, 10**6)) as runs:
        engine.refusal = QueueFull("full")
        with pytest.raises(QueueFull):
            await begin(runs)
        engine.refusal = None
        first, _ = await begin(runs), await begin(runs)
        with ExitStack() as place:
            left: list[str] = []
            place.callback(left.append, "left")
            with pytest.raises(RunsFull):
                await begin(runs, place=place)
            assert not left
        await trio.testing.wait_all_tasks_blocked()
        await runs.cancel(first)
        await begin(runs)
        assert runs.statistics().running == 2
        await trio.testing.wait_all_tasks_blocked()


async def test_a_fault_in_what_makes_an_answer_costs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeEngine([token("a")])
    async with open_runs(as_engine(engine), RunBounds(4, 100.0, 10**6)) as runs:
        other = await begin(runs)
        asked = completion(stream=True, cede={"on_disconnect": "detach"})
        writer = asked.formatter()
        monkeypatch.setattr(writer, "write", lambda event: 1 / 0)
        run = await runs.start(asked.request, StreamMaker(writer, 1e9), ExitStack())
        await run.ended.wait()
        assert b"internal_error" in (run.log.read_nowait(0) or b"")
        await trio.testing.wait_all_tasks_blocked()
        assert not other.ended.is_set()
    assert (await engine.next_request()).cancels == [CancelReason.SHUTDOWN]


@pytest.mark.parametrize("stream", [True, False])
async def test_one_that_grows_too_large_is_given_up_alone(stream: bool) -> None:
    engine = FakeEngine([token("a" * 50) for _ in range(100)])
    engine.unread = type(engine.unread)(each=4000)
    async with open_runs(as_engine(engine), RunBounds(4, 100.0, 10**6)) as runs:
        asked = completion(stream=stream, cede={"on_disconnect": "detach"})
        maker: Maker = StreamMaker(asked.formatter(), 1e9) if stream else WholeMaker(lambda: asked.formatter(100))
        run = await runs.start(asked.request, maker, ExitStack())
        await run.ended.wait()
        assert CancelReason.STALLED_READER in (await engine.next_request()).cancels
        if stream:
            assert b"answer_too_large" in (run.log.read_nowait(len(run.log) - 1) or b"")
        else:
            assert run.error is not None
            assert run.error.code == "answer_too_large"
        assert engine.unread.statistics().bytes == 0


async def test_at_the_servers_end_all_are_cancelled_and_their_answers_complete() -> None:
    engine = FakeEngine([token("a")])
    async with open_runs(as_engine(engine), RunBounds(4, 100.0, 10**6)) as runs:
        run = await begin(runs)
        await trio.testing.wait_all_tasks_blocked()
    assert (await engine.next_request()).cancels == [CancelReason.SHUTDOWN]
    assert (run.log.read_nowait(len(run.log) - 1) or b"").endswith(b"data: [DONE]\n\n")
    assert not engine.live
