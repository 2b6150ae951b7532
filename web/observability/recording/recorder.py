"""An `Observer` that makes a picture of what the engine does: its steps and layers, its slots, its queue."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import trio

from actors.core.observer import Observer
from runtime.common.units import counted
from web.observability.recording import trace_events
from web.observability.recording.file import RecordingFile, open_file
from web.observability.recording.trace_events import (
    QUEUE,
    STEPS,
    TRANSFERS,
    WAITING,
    BegunStep,
    DrawnStep,
    instant,
    span,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from actors.core.events import (
        DeviceIsBack,
        DeviceIsLost,
        Granted,
        Invalidated,
        Preempted,
        Queued,
        Released,
        Resumed,
        StepBegins,
        StepEnded,
        StepRaised,
        TransferBegins,
        TransferEnded,
    )
    from actors.core.receipts import Receipt, WallClock
    from actors.core.slot_views import GenerationKey
    from actors.engine import Engine
    from web.observability.recording.trace_events import Json


@dataclass(frozen=True, slots=True)
class _Held:
    """Time since which a generation holds its slot, and what was in that."""

    slot: int
    since: int
    cached_tokens: int


class Recorder(Observer):
    """Remembers what has begun, and writes it when it has ended.  Of prompts and answers it writes numbers only.

    Args:
        put: takes events that belong together, or a step; called on the event loop's thread.
        clock: the executor's, by which the recording's times are.
        slots: how many there are.
        wall: the time in seconds since the epoch, as receipts have it.
    """

    def __init__(self, put: Callable[..., None], clock: Callable[[], float], slots: int, wall: WallClock) -> None:
        self._put = put
        self._clock = clock
        self._began, began = clock(), wall.now()
        self._wall = wall
        self._queued: dict[GenerationKey, int] = {}
        self._held: dict[GenerationKey, _Held] = {}
        self._step: BegunStep | None = None
        self._transfer: tuple[int, TransferBegins] | None = None
        for event in trace_events.names(slots):
            put(event)
        put(instant(WAITING, "recording begins", 0, unix_time=began))

    @property
    def open(self) -> int:
        """Number of spans that have begun and not ended."""
        return len(self._queued) + len(self._held) + (self._step is not None) + (self._transfer is not None)

    def close(self) -> None:
        """Write what has begun and not ended, as far as it came."""
        for key in list(self._queued):
            self._end_wait(key, ended="recording")
        for key in list(self._held):
            self._end_hold(key, ended="recording")
        self._fail_step("the recording ended")
        self._end_transfer(error="the recording ended")

    # --- queue and slots ----------------------------------------------------------------------------------------------

    def queued(self, event: Queued) -> None:
        """Note a generation's place in the queue."""
        self._queued[event.key] = self._now()
        self._count_queue()

    def granted(self, event: Granted) -> None:
        """End its wait, and begin its hold."""
        self._end_wait(event.key, slot=event.slot)
        self._held[event.key] = _Held(event.slot, self._now(), event.cached_tokens)

    def preempted(self, event: Preempted) -> None:
        """End its hold, and begin another wait."""
        self._end_hold(event.key, cancelled=None, parked_tokens=event.tokens)
        self._queued[event.key] = self._now()
        self._count_queue()

    def resumed(self, event: Resumed) -> None:
        """End that wait, and begin another hold."""
        self._end_wait(event.key, slot=event.slot)
        self._held[event.key] = _Held(event.slot, self._now(), event.cached_tokens)

    def receipt(self, event: Receipt) -> None:
        """Write a cancel, in the moment in which it was noticed."""
        holds = self._held.get((event.request_id, event.index))
        track = WAITING if holds is None else trace_events.held(holds.slot)
        detected = self._at(self._clock() - self._wall.ago(event.detected_at))
        self._put(instant(track, f"cancel: {event.reason}", detected, **asdict(event)))

    def released(self, event: Released) -> None:
        """End its hold, or its wait where it has no slot."""
        reason = None if event.reason is None else event.reason.value
        if event.slot is None:
            self._end_wait(event.key, cancelled=reason)
        else:
            figures = {"computed_tokens": event.computed_tokens, "committed_tokens": event.committed_tokens}
            self._end_hold(event.key, cancelled=reason, **figures)

    def invalidated(self, event: Invalidated) -> None:
        """Write that a slot's KV was given up."""
        self._put(instant(trace_events.held(event.slot), "KV given up", self._now(), **_whose(event.key)))

    def _end_wait(self, key: GenerationKey, **args: Any) -> None:  # noqa: ANN401
        since = self._queued.pop(key, None)
        if since is not None:
            self._put(*trace_events.wait(_name(key), since, self._now(), **_whose(key), **args))
            self._count_queue()

    def _end_hold(self, key: GenerationKey, **args: Any) -> None:  # noqa: ANN401
        holds = self._held.pop(key, None)
        if holds is not None:
            args = {**_whose(key), "cached_tokens": holds.cached_tokens, **args}
            self._put(span(trace_events.held(holds.slot), _name(key), holds.since, self._now(), **args))

    def _count_queue(self) -> None:
        self._put(trace_events.count(QUEUE, "waiting", self._now(), len(self._queued)))

    # --- the device ---------------------------------------------------------------------------------------------------

    def step_begins(self, event: StepBegins) -> None:
        """Note what a step runs."""
        self._step = BegunStep(self._now(), event)

    def step_ended(self, event: StepEnded) -> None:
        """Write a step, its layers, and what it did for each slot, by the device's times: it may have begun untold."""
        step, self._step = self._step, None
        if step is None:
            return
        result = event.result
        outcomes = tuple([(part.computed, part.layers_after_cancel) for part in result.segments])
        step, end = replace(step, since=self._at(result.started_at)), self._at(result.finished_at)
        self._put(DrawnStep(step, end, outcomes, "", result.layer_ends, self._began, result.steps))

    def step_raised(self, event: StepRaised) -> None:
        """Write a step that failed."""
        self._fail_step(type(event.error).__name__)

    def _fail_step(self, error: str) -> None:
        step, self._step = self._step, None
        if step is not None:
            self._put(DrawnStep(step, self._now(), error=error, zero=self._began))

    def transfer_begins(self, event: TransferBegins) -> None:
        """Note what is moved."""
        self._transfer = self._now(), event

    def transfer_ended(self, event: TransferEnded) -> None:
        """Write what was moved, for each slot."""
        self._end_transfer()

    def _end_transfer(self, **args: Any) -> None:  # noqa: ANN401
        if self._transfer is None:
            return
        (since, event), self._transfer = self._transfer, None
        now = self._now()
        moved: dict[int, dict[str, int]] = {}
        for transfer in event.transfers:
            kind = type(transfer).__name__.lower()
            of_slot = moved.setdefault(transfer.slot, {})
            of_slot[kind] = of_slot.get(kind, 0) + 1
        spans = [span(trace_events.work(slot), " ".join(kinds), since, now, **kinds) for slot, kinds in moved.items()]
        self._put(span(TRANSFERS, "transfer", since, now, transfers=len(event.transfers), **args), *spans)

    def device_lost(self, event: DeviceIsLost) -> None:
        """Write it; what the device was at has ended by that."""
        self._fail_step("the device is lost")
        self._end_transfer(error="the device is lost")
        self._put(instant(STEPS, "device lost", self._now(), reason=event.reason))

    def device_back(self, event: DeviceIsBack) -> None:
        """Write it."""
        self._put(instant(STEPS, "device back", self._now()))

    # --- times --------------------------------------------------------------------------------------------------------

    def _now(self) -> int:
        return self._since(self._clock())

    def _at(self, seconds: float) -> int:
        """Nanoseconds from the recording's start to a time on the executor's clock, which is no earlier."""
        return max(0, self._since(seconds))

    def _since(self, at: float) -> int:
        """Nanoseconds from the recording's start."""
        return round((at - self._began) * 1e9)


def _name(key: GenerationKey) -> str:
    request_id, index = key
    return f"{request_id}/{index}"


def _whose(key: GenerationKey) -> Json:
    return {"request_id": key[0], "index": key[1]}


logger = logging.getLogger("cede.web")

PATIENCE = 1.0  # seconds that the server's end waits for the disk to take more


@asynccontextmanager
async def open_recording(engine: Engine, path: Path) -> AsyncIterator[None]:
    """Record what the engine does, until the scope ends.

    Args:
        engine: open.
        path: of the file, which is overwritten.

    Raises:
        RecordingError: it cannot be written.
    """
    recording = RecordingFile(open_file(path))
    recording.start()
    manager = engine.manager
    recorder = Recorder(recording.put, manager.handle.now, engine.config.slots, manager.wall)
    try:
        with engine.observed_by(recorder):
            yield
    finally:
        recorder.close()
        with trio.CancelScope(shield=True):
            is_whole = await trio.to_thread.run_sync(recording.close, PATIENCE)
        logger.info("recorded %s, dropped %d", counted(recording.written, "event"), recording.dropped)
        if not is_whole:
            logger.warning("--record: the disk does not answer, and %d events are not written", recording.unwritten)
