"""The feed: what happens is told, and nobody is waited for; while nobody watches, nothing listens."""

from __future__ import annotations

from itertools import pairwise

import trio

from actors.core.events import DeviceIsBack, DeviceIsLost
from actors.core.observer import Observers
from runtime.loading.served import Proposer
from tests.fakes.engine import FakeEngine, as_engine
from tests.fakes.simulation import ask, open_simulation, prompt, simulated, storm
from tests.sim.instruments.feed import CAPACITY, WatchedFeed
from tests.sim.instruments.happened import Happened
from tests.unit.web.observability.inspection.feed.viewers import ANN, read_frame, read_until, watching
from web.observability.inspection.feed.feed import Feed


def listens(observers: Observers) -> int:
    """Return how many there are who are told of a step."""
    assert isinstance(observers.step_begins, tuple)
    return len(observers.step_begins)


@simulated()
async def test_a_cancel_is_told_from_the_queue_to_the_receipt() -> None:
    async with open_simulation(slots=1, speculate=Proposer.MTP) as sim, trio.open_nursery() as nursery:
        feed = Feed(sim.engine)
        with watching(feed) as stream:
            assert (await read_frame(stream)).kind == "snapshot"
            asked = ask("a", prompt(40), max_tokens=200)
            nursery.start_soon(lambda: sim.client(asked, hang_up_after=12))
            events, receipt = await read_until(stream, "receipt")
        kinds = [event["type"] for event in events]
        first = {kind: kinds.index(kind) for kind in reversed(kinds)}
        order = ["queued", "granted", "step_begins", "step_ended", "verified", "cancelled", "receipt"]
        assert sorted(order, key=first.__getitem__) == order
        (true,) = sim.engine.receipts()
        assert receipt["reason"] == "client_disconnect"
        assert receipt["kept_tokens"] == true.kept_tokens
        (cancelled,) = [event for event in events if event["type"] == "cancelled"]
        assert cancelled["at"] == receipt["detected_at"] == true.detected_at
        assert all(earlier["at"] <= later["at"] + 1e-6 for earlier, later in pairwise(events))
        phases = {part["phase"] for event in events if event["type"] == "step_begins" for part in event["parts"]}
        assert phases == {"prefill", "draft", "verify"}


@simulated(seeds=5)
async def test_in_a_storm_each_generation_has_an_end_and_its_receipt_and_who_is_late_is_told() -> None:
    happened = Happened()
    async with open_simulation(slots=2, queue=40, speculate=Proposer.DRAFT) as sim:
        watched = WatchedFeed(sim.engine)
        with sim.engine.observed_by(happened), watched.attached():
            await storm(sim)
            await watched.check(happened)
    assert len(happened.waited) == 24
    assert len(watched.watcher.seen) > 10 * CAPACITY


@simulated()
async def test_nobody_listens_while_nobody_watches() -> None:
    async with open_simulation() as sim:
        feed, observers = Feed(sim.engine), sim.manager.observers
        alone = listens(observers)
        with watching(feed):
            assert listens(observers) == alone + 1
            with watching(feed):
                assert listens(observers) == alone + 1, "two viewers cost the engine no more than one"
            assert listens(observers) == alone + 1
        assert listens(observers) == alone
        await sim.client(ask("a", prompt(20), max_tokens=4))
        assert feed.ring.end == 0


@simulated()
async def test_a_viewer_that_comes_late_knows_whose_the_requests_are() -> None:
    async with open_simulation(slots=1) as sim, trio.open_nursery() as nursery:
        feed = Feed(sim.engine)
        nursery.start_soon(lambda: sim.client(ask("a", prompt(20), max_tokens=60, owner="ann")))
        nursery.start_soon(lambda: sim.client(ask("b", prompt(20), max_tokens=5, owner="ann"), arrives=0.01))
        await trio.sleep(0.2)
        with watching(feed, ANN) as stream:
            frame = await read_frame(stream)
            assert [(one["id"], one["states"]) for one in frame.data["state"]["requests"]] == [
                ("a", ["decode"]),
                ("b", ["queued"]),
            ]
            assert frame.data["model"] == "stand-in"
            events, _ = await read_until(stream, "granted")
            assert {part["request_id"] for e in events if e["type"] == "step_begins" for part in e["parts"]} >= {"a"}


@simulated()
async def test_a_viewer_that_waits_when_the_feed_ends_ends_with_it() -> None:
    async with open_simulation() as sim:
        feed, stop = Feed(sim.engine), trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(feed.end_after, stop)
            with watching(feed, keep_alive=1e4) as stream:
                await read_frame(stream)
                nursery.start_soon(_set_after, 1.0, stop)
                assert b"".join([page async for page in stream]).endswith(b"event: end\ndata: {}\n\n")
        assert trio.current_time() < 100, "it was woken"


async def _set_after(seconds: float, event: trio.Event) -> None:
    await trio.sleep(seconds)
    event.set()


@simulated()
async def test_what_is_left_is_told_when_the_feed_ends() -> None:
    async with open_simulation() as sim:
        feed, stop = Feed(sim.engine), trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(feed.end_after, stop)
            with watching(feed) as stream:
                await read_frame(stream)
                await sim.client(ask("a", prompt(20), max_tokens=4))
                stop.set()
                text = b"".join([page async for page in stream]).decode()
        assert '"type":"ended"' in text
        assert '"output_tokens":4,' in text
        assert text.endswith("event: end\ndata: {}\n\n")


async def test_a_device_that_is_lost_and_comes_back_is_told() -> None:
    feed = Feed(as_engine(FakeEngine()))
    with watching(feed) as stream:
        await read_frame(stream)
        feed.device_lost(DeviceIsLost("it fell off", queue_waits=True))
        feed.device_back(DeviceIsBack())
        frame = await read_frame(stream)
    assert [(event["type"], event.get("reason")) for event in frame.data["events"]] == [
        ("device_lost", "it fell off"),
        ("device_back", None),
    ]


@simulated()
async def test_a_frame_comes_when_nothing_is_left_of_a_request() -> None:
    async def linger() -> None:
        async with sim.engine.open_request(ask("a", prompt(16), max_tokens=4)) as request:
            async for _ in request:
                pass
            await trio.sleep(5.0)  # its last bytes are not sent yet

    async with open_simulation() as sim, trio.open_nursery() as nursery:
        with watching(Feed(sim.engine)) as stream:
            await read_frame(stream)
            nursery.start_soon(linger)
            frames = [await read_frame(stream)]
            while not frames[-1].of("departed"):
                frames.append(await read_frame(stream))
    assert any(frame.of("ended") and frame.data["state"]["requests"] for frame in frames)
    assert [event["request_id"] for event in frames[-1].of("departed")] == ["a"]
    assert frames[-1].data["state"]["requests"] == []
