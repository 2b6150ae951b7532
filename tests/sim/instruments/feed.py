"""I16: what is told to those who watch the engine."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from actors.core.events import Ended, Queued, Refused, StepBegins, StepEnded, StepRaised
from actors.core.observer import Observer
from actors.core.slot_views import GenerationKey
from actors.engine import Engine
from tests.sim.instruments.happened import Happened
from web.observability.inspection.feed.feed import Feed, Viewer
from web.observability.inspection.feed.frames import FeedStream

Json = dict[str, Any]

CAPACITY = 64  # of the ring, so that who looks away for some steps has lost events
FRAME = 1 << 24  # bytes, in one write


class Watcher(Observer):
    """Watches all the time, and loses nothing.

    Attributes:
        seen: all that was told, in order.
        lost: events that were not.
    """

    def __init__(self, viewer: Viewer) -> None:
        self.seen: list[Json] = []
        self.lost = 0
        self._viewer = viewer

    def look(self) -> None:
        """Take what is new."""
        records, lost = self._viewer.take(CAPACITY)
        self.lost += lost
        self.seen += [value for record in records if (value := record.shown_to(None)) is not None]

    def queued(self, event: Queued) -> None:
        """Look."""
        self.look()

    def refused(self, event: Refused) -> None:
        """Look."""
        self.look()

    def step_begins(self, event: StepBegins) -> None:
        """Look."""
        self.look()

    def step_ended(self, event: StepEnded) -> None:
        """Look."""
        self.look()

    def step_raised(self, event: StepRaised) -> None:
        """Look."""
        self.look()

    def ended(self, event: Ended) -> None:
        """Look."""
        self.look()


class WatchedFeed:
    """A feed with one viewer who looks all the time, and one who looks only when all is over.

    Attributes:
        feed: the real one, with a small ring.
        watcher: the first of them.
    """

    def __init__(self, engine: Engine) -> None:
        self.feed = Feed(engine, capacity=CAPACITY)
        self.watcher: Watcher
        self._late: FeedStream

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Let both watch, until the scope ends."""
        engine = self.feed.engine
        with (
            self.feed.watched() as viewer,
            self.feed.watched() as late,
            engine.unread.backlog("a viewer who is late", gathering=True) as backlog,
        ):
            self.watcher = Watcher(viewer)
            self._late = FeedStream(
                self.feed, late, None, keep_alive=1e9, backlog=backlog, write_bytes=FRAME, follow=False
            )
            with engine.observed_by(self.watcher):
                yield

    async def check(self, happened: Happened) -> None:
        """Raise AssertionError if what was told is not what happened, or who was late is not told what it lost."""
        self.watcher.look()
        assert not self.watcher.lost, "I16: events were lost, though somebody looked at each step"
        assert self.feed.output_tokens == happened.tokens, "I16: tokens are not counted once"
        await self._check_late()
        self._check_steps(happened)
        self._check_departures(happened)
        kinds = [event["type"] for event in self.watcher.seen]
        assert kinds.count("refused") == len(happened.turned_away), "I16: refusals"
        of: dict[GenerationKey, list[Json]] = defaultdict(list)
        for event in self.watcher.seen:
            if "index" in event:
                of[event["request_id"], event["index"]].append(event)
        assert set(of) == set(happened.waited), "I16: others are told of than were in the queue"
        for key, events in of.items():
            _check_generation(key, events, happened)

    async def _check_late(self) -> None:
        seen = self.watcher.seen
        page = await anext(self._late)
        kind, data = page.decode().removeprefix("event: ").split("\ndata: ")
        frame = json.loads(data)
        lost = max(0, len(seen) - CAPACITY)
        assert frame["lost"] == lost, f"I16: of {len(seen)} events {len(frame['events'])} came, {frame['lost']} lost"
        assert kind == ("lagged" if lost else "snapshot"), f"I16: who has lost {lost} events is told of a {kind}"
        assert frame["events"] == json.loads(json.dumps(seen[lost:])), "I16: two viewers are told different things"

    def _check_departures(self, happened: Happened) -> None:
        """Each request departs once, and nothing is told of it after that."""
        gone: set[str] = set()
        told = [event for event in self.watcher.seen if "request_id" in event]
        for event in told:
            assert event["request_id"] not in gone, f"I16: {event} is told of who has departed"
            if event["type"] == "departed":
                gone.add(event["request_id"])
        assert gone == {asked.id for asked in happened.gone}, f"I16: by the feed these have departed: {gone}"

    def _check_steps(self, happened: Happened) -> None:
        """Each step that begins ends before the next one does."""
        begun: Json | None = None
        count = 0
        for event in self.watcher.seen:
            match event["type"]:
                case "step_begins":
                    assert begun is None, f"I16: {begun} has no end"
                    begun, count = event, count + 1
                case "step_ended":
                    assert begun is not None, f"I16: {event} ends what has not begun"
                    names = [(one["step"], one["drafting"]) for one in (begun, event)]
                    assert names[0] == names[1], f"I16: {begun} is ended by {event}"
                    begun = None
        assert begun is None, f"I16: {begun} has no end"
        assert count == happened.steps, f"I16: {happened.steps} steps, of which {count} are told"


def _check_generation(key: GenerationKey, events: list[Json], happened: Happened) -> None:
    """A lane is opened once and closed once, nothing comes after that, and its cancel is what the receipt says."""
    kinds = [event["type"] for event in events]
    name = f"I16: {key}: {kinds}"
    assert kinds[0] == "queued", name
    assert kinds[-1] == "ended", name
    for once in ("queued", "granted", "cancelled", "receipt", "ended"):
        assert kinds.count(once) <= 1, name
    slots = [event["slot"] for event in events if event["type"] == "granted"]
    assert slots == ([happened.slots[key]] if key in happened.slots else []), name
    receipt = happened.receipts.get(key)
    told = [event for event in events if event["type"] == "receipt"]
    assert bool(told) is ("cancelled" in kinds) is (receipt is not None), name
    if receipt is not None:
        assert kinds.index("cancelled") < kinds.index("receipt"), name
        assert {field: told[0][field] for field in asdict(receipt)} == asdict(receipt), f"{name}: {told}, {receipt}"
        assert events[kinds.index("cancelled")]["at"] == receipt.detected_at, f"{name}: {receipt}"
