"""The stream: how often there is a frame, what a viewer that lags is told, and that others do not notice it."""

from __future__ import annotations

from functools import partial

import pytest
import trio
from trio.testing import MockClock

from tests.fakes.engine import FakeEngine, as_engine
from tests.fakes.simulation import Simulation, ask, open_simulation, prompt, simulated
from tests.unit.web.observability.inspection.feed.viewers import ADMIN, ANN, BEN, Frame, read_frame, watching
from web.observability.inspection.feed.feed import Feed
from web.observability.inspection.feed.frames import INTERVAL, KEEP_ALIVE, MOST_EVENTS


async def work(sim: Simulation, name: str, seconds: float) -> None:
    """Keep a slot busy for so long."""
    await sim.client(ask(name, prompt(16), max_tokens=4000), hang_up_at=trio.current_time() + seconds)


@simulated()
async def test_a_thousand_events_a_second_are_a_few_frames() -> None:
    async with open_simulation(context=4096, step_seconds=lambda _: 0.002) as sim, trio.open_nursery() as nursery:
        with watching(Feed(sim.engine)) as stream:
            await read_frame(stream)
            nursery.start_soon(work, sim, "a", 1.5)
            began = trio.current_time()
            frames: list[Frame] = []
            while not frames or not frames[-1].of("receipt"):
                frames.append(await read_frame(stream))
        seconds = trio.current_time() - began
        assert sum(len(frame.data["events"]) for frame in frames) > 900 * seconds
        assert len(frames) <= seconds / INTERVAL + 2
        assert {frame.kind for frame in frames} == {"frame"}
        assert not any(frame.data["lost"] for frame in frames)


@simulated()
async def test_without_news_there_is_no_frame_but_a_sign_of_life() -> None:
    async with open_simulation() as sim:
        with watching(Feed(sim.engine), keep_alive=10.0) as stream:
            await read_frame(stream)
            began = trio.current_time()
            assert [await anext(stream) for _ in range(3)] == [KEEP_ALIVE] * 3
            assert trio.current_time() - began == pytest.approx(30.0)


@simulated()
async def test_a_viewer_that_lags_is_told_how_many_it_lost_and_how_things_stand() -> None:
    async with open_simulation(context=4096, step_seconds=lambda _: 0.002) as sim:
        feed = Feed(sim.engine, capacity=500)
        with watching(feed) as lagging, watching(feed) as other:
            await read_frame(lagging)
            await read_frame(other)
            seen = 0
            async with trio.open_nursery() as nursery:
                nursery.start_soon(work, sim, "a", 1.2)
                while True:
                    frame = await read_frame(other)
                    assert frame.kind == "frame", "the other's pace is its own"
                    seen += len(frame.data["events"])
                    if frame.of("ended"):
                        break
            late = await read_frame(lagging)
            assert late.kind == "lagged"
            assert late.data["lost"] + len(late.data["events"]) == seen
            assert len(late.data["events"]) == 500
            assert late.data["state"]["requests"] == []
            assert late.of("receipt"), "the newest are those that are kept"


@simulated()
async def test_a_frame_is_bounded_and_the_rest_is_in_the_next() -> None:
    async with open_simulation(context=4096, step_seconds=lambda _: 0.002) as sim:
        with watching(Feed(sim.engine)) as stream:
            await read_frame(stream)
            await work(sim, "a", 2.0)
            first, second = await read_frame(stream), await read_frame(stream)
            assert len(first.data["events"]) == MOST_EVENTS
            assert (first.data["lost"], second.data["lost"]) == (0, 0)
            assert second.of("receipt")


@simulated()
async def test_a_viewer_that_hangs_up_in_a_wait_leaves_nothing() -> None:
    async with open_simulation() as sim:
        feed = Feed(sim.engine)
        before = sim.manager.observers.queued
        with trio.move_on_after(5), watching(feed) as stream:
            while True:
                await read_frame(stream)
        assert sim.manager.observers.queued == before
        assert sim.engine.unread.statistics().readers == 0


@simulated()
async def test_a_key_is_told_of_its_own_requests_and_of_others_only_their_slots() -> None:
    async with open_simulation(slots=2) as sim:
        feed = Feed(sim.engine)
        with watching(feed, ANN) as ann, watching(feed, BEN) as ben, watching(feed, ADMIN) as admin:
            streams = {"ann": ann, "ben": ben, "admin": admin}
            for stream in streams.values():
                await read_frame(stream)
            async with trio.open_nursery() as nursery:
                for owner in ("ann", "ben"):
                    asked = ask(f"of-{owner}", prompt(20), max_tokens=50, owner=owner)
                    nursery.start_soon(partial(sim.client, asked, hang_up_after=4))
            told = {name: await read_frame(stream) for name, stream in streams.items()}
        ids = {
            name: {event["request_id"] for event in frame.data["events"] if "request_id" in event}
            for name, frame in told.items()
        }
        assert ids == {"ann": {"of-ann"}, "ben": {"of-ben"}, "admin": {"of-ann", "of-ben"}}
        parts = {
            name: {part["request_id"] for event in frame.of("step_begins") for part in event["parts"]}
            for name, frame in told.items()
        }
        assert parts == {"ann": {"of-ann", None}, "ben": {"of-ben", None}, "admin": {"of-ann", "of-ben"}}
        assert "of-ben" not in str(told["ann"].data)
        with watching(feed, ANN) as late:
            receipts = (await read_frame(late)).data["receipts"]
        assert [receipt["request_id"] for receipt in receipts] == ["of-ann"]


async def test_a_viewer_that_leaves_too_much_unread_is_cut(autojump_clock: MockClock) -> None:
    engine = FakeEngine()
    engine.unread = type(engine.unread)(each=100)
    with watching(Feed(as_engine(engine))) as stream:
        await anext(stream)
        with pytest.raises(trio.TooSlowError):
            await anext(stream)


async def test_who_does_not_follow_gets_one_frame(autojump_clock: MockClock) -> None:
    with trio.fail_after(60), watching(Feed(as_engine(FakeEngine())), follow=False) as stream:
        assert (await read_frame(stream)).kind == "snapshot"
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
