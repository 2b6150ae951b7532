"""Responses in the background, in virtual time: their bounds, their ends, and what is kept of them."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import trio
import trio.testing

from actors.core.generation import Failed
from actors.core.receipts import CancelReason
from runtime.chat.parts import PlainParser
from runtime.errors import QueueFull, ShuttingDown, StepFailed
from tests.fakes.engine import FakeEngine, FakeRequest, as_engine, say, token
from tests.unit.web.apis.responses.asking import ask, check_stream, read_events
from web.apis.responses.output.envelope import ResponseOptions
from web.apis.responses.stored.archive import Archive
from web.apis.responses.stored.making import BackgroundResponses
from web.bodies.query import PageAsked
from web.generation.asked import Asked
from web.storage.detached.run import Run
from web.storage.detached.runs import KEPT_SECONDS, RunBounds, RunsFull, open_runs
from web.storage.objects import Bounds, Kind, ObjectNotFound, encoded
from web.storage.store import StoreFailed, open_store

KEEP_ALIVE = 10.0


@asynccontextmanager
async def running(
    engine: FakeEngine,
    *,
    size: int = 10**6,
    **bounds: Any,  # noqa: ANN401
) -> AsyncIterator[tuple[BackgroundResponses, Archive]]:
    """Responses in the background of an engine, and where they are stored."""
    chosen = RunBounds(**{"running": 4, "timeout": 100.0, "kept_bytes": 10**6} | bounds)
    async with open_store(None, Bounds(size, 1e9)) as store:
        archive = Archive(store)
        async with open_runs(as_engine(engine), chosen) as runs:
            background = BackgroundResponses(runs, archive, KEEP_ALIVE)
            yield background, archive


def owned(parsed: Asked[ResponseOptions], owner: str | None) -> Asked[ResponseOptions]:
    """A request, asked by the key of that name."""
    return replace(parsed, request=replace(parsed.request, owner=owner))


async def begin(background: BackgroundResponses, owner: str | None = None) -> Run:
    """Begin a response of that owner's."""
    run, response = await background.start(owned(ask(background=True), owner), ExitStack())
    assert (response["id"], response["status"]) == (run.id, "in_progress")
    return run


async def load(archive: Archive, id: str, owner: str | None) -> bytes:
    """Return what is stored of a response."""
    return (await archive.store.get(Kind.RESPONSE, id, owner)).body


def events_of(run: Run) -> list[dict[str, Any]]:
    """Return what a client that reads all of it is told."""
    frames = [run.log.read_nowait(number) or b"" for number in range(len(run.log))]
    return read_events(b"".join(frames))


async def test_it_is_kept_for_a_while_and_stored_for_longer(autojump_clock: trio.testing.MockClock) -> None:
    async with running(FakeEngine(say("Hel", "lo"))) as (background, archive):
        run = await begin(background, owner="alice")
        request_id = run.id
        await run.ended.wait()
        response = check_stream(events_of(run))
        assert response["status"] == "completed"
        assert background.runs.find(request_id, "alice") is run
        assert background.runs.find(request_id, "bob") is None
        await trio.sleep(KEPT_SECONDS - 1)
        assert background.runs.find(request_id, "alice") is run
        await trio.sleep(2)
        assert background.runs.find(request_id, "alice") is None
        assert json.loads(await load(archive, request_id, "alice")) == response
        with pytest.raises(ObjectNotFound):
            await load(archive, request_id, "bob")


async def test_the_events_of_those_that_ended_first_make_room(autojump_clock: trio.testing.MockClock) -> None:
    async with running(FakeEngine(say("Hel", "lo")), kept_bytes=12_000) as (background, _):
        runs = []
        for _ in range(6):
            runs.append(await begin(background))
            await runs[-1].ended.wait()
            await trio.sleep(1)
        kept = [run for run in runs if background.runs.find(run.id, None)]
        assert kept == runs[-len(kept) :]
        assert 0 < len(kept) < 6
        assert sum(run.log.size for run in kept) <= 12_000


async def test_it_has_a_deadline_of_its_own() -> None:
    engine = FakeEngine(say("a"))
    async with running(engine, timeout=77.0) as (background, _):
        await begin(background, owner="alice")
        asked = (await engine.next_request()).asked
        assert (asked.timeout, asked.owner) == (77.0, "alice")


async def test_silence_is_told_to_all_who_follow(autojump_clock: trio.testing.MockClock) -> None:
    go = trio.Event()

    async def script(request: FakeRequest) -> None:
        await go.wait()
        request.emit(*say("a"))

    async with running(FakeEngine(script)) as (background, _):
        run = await begin(background)
        await trio.sleep(3.5 * KEEP_ALIVE)
        go.set()
        await run.ended.wait()
        kinds = [event["type"] for event in events_of(run)]
        check_stream(events_of(run))
        assert kinds.count("response.in_progress") == 1 + 3


async def test_only_so_many_run_at_a_time() -> None:
    engine = FakeEngine([token("a")])
    async with running(engine, running=2) as (background, _):
        runs = [await begin(background) for _ in range(2)]
        with pytest.raises(RunsFull):
            await begin(background)
        await background.runs.cancel(runs[0])
        await begin(background)


async def test_one_that_is_refused_leaves_nothing() -> None:
    engine = FakeEngine(say("a"))
    async with running(engine, running=1) as (background, archive):
        engine.refusal = QueueFull("full")
        parsed = ask(background=True)
        with pytest.raises(QueueFull):
            await background.start(parsed, ExitStack())
        assert background.runs.find(parsed.request.id, None) is None
        with pytest.raises(ObjectNotFound):
            await load(archive, parsed.request.id, None)
        engine.refusal = None
        await begin(background)  # it takes no place


async def test_one_that_cannot_be_stored_does_not_run() -> None:
    engine = FakeEngine([token("a")])
    async with running(engine, size=100) as (background, _):
        with pytest.raises(StoreFailed):
            await begin(background)
        assert not engine.live


async def test_one_whose_answer_outgrows_the_store_says_so() -> None:
    async with running(FakeEngine(say("x" * 5000)), size=4000) as (background, _):
        run = await begin(background)
        await run.ended.wait()
        assert check_stream(events_of(run))["store"] is False


@pytest.mark.parametrize("events", [[token("a")], []])
async def test_at_the_end_those_that_run_are_cancelled_and_stored_so(events: list[Any]) -> None:
    engine = FakeEngine(events)
    async with open_store(None, Bounds(10**6, 1e9)) as store:
        archive = Archive(store)
        bounds = RunBounds(4, 100.0, 10**6)
        async with open_runs(as_engine(engine), bounds) as runs:
            background = BackgroundResponses(runs, archive, KEEP_ALIVE)
            run = await begin(background)
        request = await engine.next_request()
        assert request.cancels == [CancelReason.SHUTDOWN]
        check_stream(events_of(run))
        assert json.loads(await load(archive, request.id, None))["status"] == "cancelled"
        with pytest.raises(ShuttingDown):
            await begin(background)


async def test_a_crash_of_what_is_around_it_stores_it_too() -> None:
    engine = FakeEngine([token("a")])
    async with open_store(None, Bounds(10**6, 1e9)) as store:
        archive = Archive(store)
        with trio.CancelScope() as scope:
            bounds = RunBounds(4, 100.0, 10**6)
            async with open_runs(as_engine(engine), bounds) as runs:
                background = BackgroundResponses(runs, archive, KEEP_ALIVE)
                run = await begin(background)
                scope.cancel()
                await trio.sleep_forever()
        check_stream(events_of(run))
        assert json.loads(await load(archive, run.id, None))["status"] == "cancelled"


async def test_a_failure_is_stored_as_one() -> None:
    async with running(FakeEngine([token("a"), Failed(0, StepFailed("no"))])) as (background, archive):
        run = await begin(background)
        await run.ended.wait()
        stored = json.loads(await load(archive, run.id, None))
        assert (stored["status"], stored["error"]["message"]) == ("failed", "no")
        assert stored == check_stream(events_of(run))


async def test_one_that_grows_too_large_is_given_up() -> None:
    engine = FakeEngine([token("a" * 50) for _ in range(100)])
    engine.unread = type(engine.unread)(each=4000)
    async with running(engine) as (background, archive):
        run = await begin(background)
        await run.ended.wait()
        assert check_stream(events_of(run))["status"] == "failed"
        assert (await engine.next_request()).cancels == [CancelReason.STALLED_READER]
        assert "grew beyond" in json.loads(await load(archive, run.id, None))["error"]["message"]


async def test_what_another_process_was_making_has_failed() -> None:
    async with open_store(None, Bounds(10**6, 1e9)) as store:
        archive = Archive(store)
        parsed = ask(background=True)
        async with open_runs(as_engine(FakeEngine([])), RunBounds(4, 1e3, 0)) as runs:
            background = BackgroundResponses(runs, archive, 1e3)
            _, snapshot = await background.start(owned(parsed, "alice"), ExitStack())
            await archive.save(owned(parsed, "alice"), snapshot, await encoded(parsed.options.input), live=True)
            await archive.close_interrupted()  # as the next process does
            stored = json.loads(await load(archive, parsed.request.id, "alice"))
            assert (stored["status"], stored["error"]["code"]) == ("failed", "server_error")
            assert not await store.live(Kind.RESPONSE)
            seen = await store.page(
                Kind.RESPONSE, parsed.request.id, "alice", PageAsked(10, ascending=True, after=None)
            )
            assert [json.loads(item.body) for item in seen.items] == parsed.options.input


async def test_when_it_has_ended_its_place_is_left_and_what_it_was_made_of_is_gone() -> None:
    left: list[str] = []

    def large() -> PlainParser:  # as what is held by its request
        return PlainParser()

    asked = ask(background=True)
    made_of = weakref.ref(large)
    async with running(FakeEngine([token("a")])) as (background, _):
        with ExitStack() as place:
            place.callback(left.append, "place")
            run, _ = await background.start(replace(asked, options=replace(asked.options, parser=large)), place)
        del large
        assert made_of() is not None
        assert not left
        await background.runs.cancel(run)
        await trio.testing.wait_all_tasks_blocked()
        assert left == ["place"]
        gc.collect()
        assert background.runs.find(run.id, None) is run
        assert made_of() is None


async def test_the_place_of_one_that_is_refused_stays_with_who_asked() -> None:
    left: list[str] = []
    async with running(FakeEngine([]), running=0) as (background, _):
        with ExitStack() as place:
            place.callback(left.append, "place")
            with pytest.raises(RunsFull):
                await background.start(ask(background=True), place)
            assert not left
    assert left == ["place"]


async def test_a_fault_while_its_end_is_stored_costs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeEngine([token("a")])
    async with running(engine) as (background, archive):
        run, other = await begin(background), await begin(background)

        async def fail(*_: object, **__: object) -> bool:
            raise ValueError("a fault")

        with monkeypatch.context() as patch:
            patch.setattr(archive, "save", fail)
            await background.runs.cancel(run)
        assert check_stream(events_of(run))["store"] is False
        await background.runs.cancel(other)
        assert json.loads(await load(archive, other.id, None))["status"] == "cancelled"
