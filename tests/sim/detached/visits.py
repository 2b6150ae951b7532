"""Requests that may outlive their clients, and clients who leave and come back: I24 of `tests.sim.invariants`."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import trio

from actors.control import Control, OnDisconnect
from actors.core.receipts import CancelReason
from runtime.errors import CedeError
from tests.sim.order.fairness import ROUNDING
from web.storage.detached.disconnects import Followed, patience_of
from web.storage.detached.event_log import AttachedStream, EventLog
from web.storage.detached.runs import SSE, RunBounds

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

    from actors.core.generation import GenerationRequest
    from actors.generating.unread import Backlog
    from tests.fakes.kv_simulation import KVSimulation
    from tests.sim.clients import Story
    from tests.sim.scenario import Visit
    from web.storage.detached.run import Run
    from web.storage.detached.runs import Runs

MOST_SECONDS = 0.25
BOUNDS = RunBounds(running=10**6, timeout=MOST_SECONDS, kept_bytes=10**9, tokens=10**6)

CAUSES: dict[OnDisconnect, set[CancelReason]] = {
    "cancel": {CancelReason.DISCONNECT},
    "detach": {CancelReason.ABANDONED},
    "finish_prefill": {CancelReason.DISCONNECT, CancelReason.PREFILL_FINISHED, CancelReason.ABANDONED},
}
"""What may end a request that nobody reads."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """Conduct of a client: what it says of hang-ups, and when it hangs up.

    Attributes:
        control: of its request.
        stays: for each time that it reads, how many writes it takes before it leaves; the last leaves for good.
        away: seconds before each time but the first.
        others: readers that come beside it each time, and read to the end of what there is.
    """

    control: Control
    stays: tuple[int, ...]
    away: tuple[float, ...]
    others: int

    @property
    def is_detached(self) -> bool:
        """Return whether the request is to go on without its client."""
        return self.control.on_disconnect == "detach"


def draw_leaving(dice: random.Random) -> Leaving:
    """Return what somebody says and does who leaves at least once."""
    kind: OnDisconnect = dice.choice(["cancel", "detach", "finish_prefill"])
    grace = dice.choice([0.0, 0.002, 0.03, 0.2]) if kind != "cancel" else dice.choice([0.002, 0.03, 0.2])
    patience = None if kind == "detach" and dice.random() < 0.5 else grace
    control = Control(kind, grace_s=patience, keep_s=dice.choice([0.0, 1.0]))
    times = dice.randint(1, 4)
    stays = tuple(dice.choice([0, 0, 1, 3, 1000]) for _ in range(times))
    away = tuple(dice.choice([0.0, 0.001, 0.02, 0.3]) for _ in range(times - 1))
    return Leaving(control, stays, away, dice.choice([0, 0, 1]))


def leavers(visits: Sequence[Visit], dice: random.Random) -> tuple[Visit, ...]:
    """Return the same visits; in half of all scenarios most are by those whose requests may outlive them."""
    if dice.random() >= 1 / 2:
        return tuple(visits)
    return tuple(
        replace(visit, leaving=draw_leaving(dice), hang_up_after=None, hang_up_at=None, reads=True)
        if dice.random() < 0.7
        else visit
        for visit in visits
    )


@dataclass(slots=True)
class StoryMaker:
    """Makes a log of the engine's very events, one for each, and tells them to a story.

    A `web.storage.detached.runs.Maker`.
    """

    story: Story
    streamed: bool = True
    content_type: str = SSE
    headers: Mapping[str, str] = field(default_factory=dict)

    async def begin(self, log: EventLog) -> None:
        """Do nothing."""

    async def follow(self, request: Followed, log: EventLog, backlog: Backlog) -> None:
        """Write the events."""
        async for event in request:
            self.story.events.append(event)
            self.story.times.append(trio.current_time())
            log.write(b"%d of %s\n\n" % (len(log), self.story.asked.id.encode()))
            backlog.set_size(log.held)

    def fail(self) -> None:
        """Say that this cannot be."""
        raise AssertionError("I24: an answer could not be made")

    async def end(self, log: EventLog) -> None:
        """Write the end."""
        log.write(b"the end\n\n")


async def visit(sim: KVSimulation, runs: Runs, asked: GenerationRequest, leaving: Leaving) -> Story:
    """Ask, leave and come back as was drawn, and return when the request is over and its answer checked."""
    said = leaving.control
    asked = replace(
        asked,
        control=replace(asked.control, on_disconnect=said.on_disconnect, grace_s=said.grace_s, keep_s=said.keep_s),
    )
    story = sim.expect(asked)
    if asked.grammar is not None:
        sim.watch.invariants.held[asked.id] = asked
    client = _Client(story, leaving, runs)
    try:
        with ExitStack() as reader:
            run = await runs.start(asked, StoryMaker(story), ExitStack(), reader)
            story.opened = True
            await client.read(run, leaving.stays[0])
        for away, stays in zip(leaving.away, leaving.stays[1:], strict=True):
            client.left(run)
            await trio.sleep(away)
            client.came_back(slack=sim.watch.device.jumped)
            with run.reading():
                await client.read(run, stays)
        client.left(run)
        await run.ended.wait()
        client.check(run, sim)
    except CedeError as error:
        story.error = error
    story.ended = True
    story.receipts = [receipt for receipt in sim.engine.receipts(10_000) if receipt.request_id == asked.id]
    return story


class _Client:
    """One who reads a log a few times, and what it knows of it."""

    def __init__(self, story: Story, leaving: Leaving, runs: Runs) -> None:
        self._story = story
        self._leaving = leaving
        self._runs = runs
        self._known = b""

    async def read(self, run: Run, writes: int) -> None:
        """Read on behind the last event that is known whole; others read all that there is."""
        async with trio.open_nursery() as others:
            for _ in range(self._leaving.others):
                others.start_soon(self._read_beside, run)
            position = self._known.count(b"\n\n")
            stream = AttachedStream(run.log, position, 32)
            read = b""
            for _ in range(writes):
                try:
                    read += await anext(stream)
                except StopAsyncIteration:
                    break
            self._known += read[: read.rfind(b"\n\n") + 2] if b"\n\n" in read else b""
            others.cancel_scope.cancel()

    async def _read_beside(self, run: Run) -> None:
        with run.reading():
            read = b"".join([data async for data in AttachedStream(run.log, 0, 32)])
            assert read == _whole(run), f"I24: another reader of {run.id} was told otherwise"

    def left(self, run: Run) -> None:
        """Note when the request may be cancelled for want of readers, at the earliest and at the latest."""
        self._story.went_on |= not run.ended.is_set()
        if not run.ended.is_set() and self._story.left_at is None:
            self._story.left_at = trio.current_time() + patience_of(run.control, MOST_SECONDS)

    def came_back(self, slack: float) -> None:
        """Note that it was in time, if it was; where the clock jumped over both, who wakes up first decides."""
        if self._story.left_at is not None and trio.current_time() <= self._story.left_at + slack:
            self._story.left_at = None

    def check(self, run: Run, sim: KVSimulation) -> None:
        """Hold what was read, and how long the request went on, against what was promised."""
        name = f"I24: {run.id}"
        whole = _whole(run)
        assert whole.startswith(self._known), f"{name}: a reader that came back was told otherwise"
        lines = whole.split(b"\n\n")[:-1]
        assert [line.partition(b"\n")[0] for line in lines] == [b"id: %d" % n for n in range(len(lines))], name
        assert len(run.log) == len(self._story.events) + 1, f"{name}: events were lost or repeated"
        assert run not in set(self._runs) or run.kept_until is not None, f"{name} has ended, and still runs"
        assert not run.readers, f"{name} has readers that have left"
        if (left_at := self._story.left_at) is not None and run.control.on_disconnect != "cancel":
            left_at += MOST_SECONDS
        if left_at is not None:
            slack = sim.watch.device.jumped + ROUNDING
            cancelled = [at for (request_id, _), at in sim.watch.books.cancelled_at.items() if request_id == run.id]
            for at in cancelled:
                assert at <= left_at + slack, f"{name}: cancelled {at - left_at} s after the end of its patience"


def _whole(run: Run) -> bytes:
    return b"".join(run.log.read_nowait(number) or b"" for number in range(len(run.log)))
