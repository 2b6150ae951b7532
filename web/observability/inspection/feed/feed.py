"""Viewers of the engine, and what they have not been told yet."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import trio

from actors.core.events import ActorStage
from actors.core.generation import Failed
from actors.core.observer import Observer
from web.observability.inspection.feed.records import Record, Ring, StepEndRecord, StepRecord, of_generation, of_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.core.events import (
        AuditFailed,
        Cancelled,
        Committed,
        Departed,
        DeviceIsBack,
        DeviceIsLost,
        Emitted,
        Ended,
        GenerationEvent,
        Granted,
        Preempted,
        Queued,
        Refused,
        Resumed,
        StageBegun,
        StepBegins,
        StepEnded,
        StepRaised,
        Transferred,
    )
    from actors.core.receipts import Receipt
    from actors.core.slot_views import GenerationKey
    from actors.engine import Engine
    from web.observability.inspection.feed.records import AnyRecord
    from web.storage.detached.run import Change, DetachableRequest
    from web.storage.detached.runs import Runs

CAPACITY = 4096
"""Events that are kept for viewers that have not read them."""

OWN_STAGES = frozenset({ActorStage.RESTORING, ActorStage.FETCHING, ActorStage.LEAVING})
"""The stages that are told by themselves; the others show in the steps, or in the queue."""


class Viewer:
    """One who watches, from `Feed.watched` on.

    Args:
        feed: whose events.
        position: the number of the first event that is not read.
    """

    def __init__(self, feed: Feed, position: int) -> None:
        self._feed = feed
        self._position = position

    @property
    def has_news(self) -> bool:
        """Return whether there is something to take."""
        return self._feed.ring.end > self._position

    def take(self, most: int) -> tuple[list[AnyRecord], int]:
        """Return the next records, and how many were lost before them."""
        records, lost = self._feed.ring.read(self._position, most)
        self._position += lost + len(records)
        return records, lost

    async def wait(self) -> None:
        """Wait until there is something to take, or the feed has ended."""
        await trio.lowlevel.checkpoint()
        while not (self.has_news or self._feed.is_over):
            await self._feed.news.park()


class Feed(Observer):
    """Listens to an engine while somebody watches, and does nothing at all while nobody does.

    Attributes:
        engine: that is watched.
        runs: its requests that may outlive their clients; None where there are none.
        ring: what has happened lately.
        news: where those wait who have read all of it.
        is_over: nothing more will be told.
        output_tokens: that were written while somebody watched.

    Args:
        engine: to be watched.
        runs: watched as well.
        capacity: events that are kept for viewers that have not read them.
    """

    def __init__(self, engine: Engine, runs: Runs | None = None, capacity: int = CAPACITY) -> None:
        self.engine = engine
        self.runs = runs
        self.ring = Ring(capacity)
        self.news = trio.lowlevel.ParkingLot()
        self.is_over = False
        self.output_tokens = 0
        self._capacity = capacity
        self._viewers = 0
        self._listening = ExitStack()
        self._owners: dict[GenerationKey, str | None] = {}

    def now(self) -> float:
        """Return the seconds since the epoch."""
        return self.engine.manager.wall.now()

    @contextmanager
    def watched(self) -> Iterator[Viewer]:
        """Keep what happens for one more viewer, until the scope ends."""
        if not self._viewers:
            self._owners = {
                (status.id, index): status.owner
                for status in self.engine.requests()
                for index in range(len(status.states))
            }
            self._listening.enter_context(self.engine.observed_by(self))
            if self.runs is not None:
                self._listening.enter_context(self.runs.changes.told_to(self.run_changed))
        self._viewers += 1
        try:
            yield Viewer(self, self.ring.end)
        finally:
            self._viewers -= 1
            if not self._viewers:
                self._listening.close()
                self.ring = Ring(self._capacity)

    def end(self) -> None:
        """Let all viewers come to their end: they are told what they have not read, and nothing more."""
        self.is_over = True
        self.news.unpark_all()

    async def end_after(self, stop: trio.Event) -> None:
        """End once that event has happened."""
        await stop.wait()
        self.end()

    def _tell(self, record: AnyRecord) -> None:
        self.ring.append(record)
        if self.news:
            self.news.unpark_all()

    def _tell_of(self, kind: str, event: GenerationEvent, at: float | None = None, **fields: Any) -> None:  # noqa: ANN401
        at = self.now() if at is None else at
        self._tell(of_generation(kind, at, event.key, self._owners.get(event.key), **fields))

    # --- what is heard ------------------------------------------------------------------------------------------------

    def queued(self, event: Queued) -> None:
        """Note whose it is."""
        self._owners[event.key] = event.owner
        self._tell_of("queued", event, prompt_tokens=event.prompt_tokens)

    def refused(self, event: Refused) -> None:
        """Say that there was one; not whose."""
        code = event.error.code or event.error.kind
        self._tell(of_server("refused", self.now(), generations=event.generations, code=code))

    def granted(self, event: Granted) -> None:
        """Say which slot, and for whom it waits that reads the same; others' requests have no id."""
        owner = self._owners.get(event.key)
        leaders = [
            {
                "request_id": leader.request_id
                if self._owners.get((leader.request_id, leader.index)) == owner
                else None,
                "shared_tokens": leader.shared_tokens,
            }
            for leader in event.leaders
        ]
        self._tell_of("granted", event, slot=event.slot, cached_tokens=event.cached_tokens, leaders=leaders)

    def preempted(self, event: Preempted) -> None:
        """Say which slot it has left; not for whom, who may be another owner's."""
        self._tell_of("parked", event, slot=event.slot, tokens=event.tokens, parks=event.preemptions)

    def resumed(self, event: Resumed) -> None:
        """Say which slot it goes on in, and for how long it had none."""
        self._tell_of(
            "resumed",
            event,
            slot=event.slot,
            cached_tokens=event.cached_tokens,
            parked_seconds=event.seconds,
        )

    def stage_begun(self, event: StageBegun) -> None:
        """Say those that do not show otherwise."""
        if event.stage in OWN_STAGES:
            self._tell_of("stage", event, stage=event.stage.value)

    def step_begins(self, event: StepBegins) -> None:
        """Say what is in it."""
        owners = tuple(self._owners.get(part.key) for part in event.parts)
        self._tell(StepRecord(event, self.now(), owners))

    def step_ended(self, event: StepEnded) -> None:
        """Say when."""
        self._tell_end(event, event.result.steps, failed=False)

    def step_raised(self, event: StepRaised) -> None:
        """Say when, and that it failed."""
        self._tell_end(event, 1, failed=True)

    def _tell_end(self, event: StepEnded | StepRaised, steps: int, *, failed: bool) -> None:
        self._tell(StepEndRecord(event.number, event.drafting, failed, steps, self.now()))

    def verified(self, event: Committed) -> None:
        """Say how many drafts stood."""
        self._tell_of("verified", event, drafted=event.drafted, accepted=event.accepted)

    def transferred(self, event: Transferred) -> None:
        """Say how many tokens did not have to be computed."""
        self._tell_of("restored", event, slot=event.slot, start=event.start, tokens=event.tokens)

    def audit_failed(self, event: AuditFailed) -> None:
        """Say for whom."""
        self._tell_of("audit_failed", event)

    def emitted(self, event: Emitted) -> None:
        """Count."""
        self.output_tokens += event.tokens

    def cancelled(self, event: Cancelled) -> None:
        """Say the moment."""
        self._tell_of("cancelled", event, self.engine.manager.wall.at(event.at))

    def receipt(self, event: Receipt) -> None:
        """Say all of it."""
        value = {"type": "receipt", "at": self.now()} | asdict(event)
        self._tell(Record(value, event.owner))

    def ended(self, event: Ended) -> None:
        """Say how, and forget whose it was."""
        last = event.last
        how = (last.error.code or last.error.kind) if isinstance(last, Failed) else last.reason.value
        self._tell_of("ended", event, reason=how)
        self._owners.pop(event.key, None)

    def run_changed(self, change: Change, run: DetachableRequest) -> None:
        """Say who reads a request that may outlive its client, and until when its answer is kept."""
        figures = {"readers": run.readers, "kept_until": run.kept_until}
        self._tell(Record({"type": change, "at": self.now(), "request_id": run.id} | figures, run.owner))

    def departed(self, event: Departed) -> None:
        """Say that a request is no longer among those that live: no event of its generations says that."""
        value = {"type": "departed", "at": self.now(), "request_id": event.asked.id}
        self._tell(Record(value, event.asked.owner))

    def device_lost(self, event: DeviceIsLost) -> None:
        """Say why."""
        self._tell(of_server("device_lost", self.now(), reason=event.reason))

    def device_back(self, event: DeviceIsBack) -> None:
        """Say it."""
        self._tell(of_server("device_back", self.now()))
