"""Chrome's trace events: plain JSON, each object whole in itself; times are microseconds from the recording's start.

Spans are written when they have ended, as one object (`X`), or as a pair that is written together (`b`, `e`) where
several of one track may overlap.  So whatever is dropped, and wherever a file breaks off, none is left open.

The format is "Trace Event Format" of the Chromium project; Perfetto imports it.
"""

from __future__ import annotations

from dataclasses import dataclass
from json.encoder import encode_basestring_ascii as quoted
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.core.events import StepBegins

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Track:
    """A row of the picture: a thread of a process, as the format calls them."""

    pid: int
    tid: int


DEVICE, SLOTS, QUEUE = 10_001, 10_002, 10_003  # Perfetto takes a thread with its process's number for the main one
STEPS, DRAFT_STEPS, TRANSFERS = Track(DEVICE, 1), Track(DEVICE, 2), Track(DEVICE, 3)
WAITING = Track(QUEUE, 1)


def held(slot: int) -> Track:
    """Return the track of who holds a slot."""
    return Track(SLOTS, 2 * slot + 1)


def work(slot: int) -> Track:
    """Return the track of what the device does for a slot, or copies out of it, whoever holds it then."""
    return Track(SLOTS, 2 * slot + 2)


def names(slots: int) -> Iterator[Json]:
    """Say what the tracks are called, and in which order they are shown."""
    for pid, name in ((DEVICE, "device"), (SLOTS, "slots"), (QUEUE, "queue")):
        yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
    tracks = {STEPS: "steps", DRAFT_STEPS: "drafter's steps", TRANSFERS: "transfers of KV", WAITING: "cancelled"}
    for slot in range(slots):
        tracks |= {held(slot): f"slot {slot}", work(slot): f"slot {slot}: work"}
    for track, name in tracks.items():
        about = {"ph": "M", "pid": track.pid, "tid": track.tid}
        yield {"name": "thread_name", "args": {"name": name}} | about
        yield {"name": "thread_sort_index", "args": {"sort_index": track.tid}} | about


def span(track: Track, name: str, begin: int, end: int, **args: Any) -> Json:  # noqa: ANN401  whatever JSON has
    """Return a span, from and to nanoseconds; those of one track lie within one another, or apart."""
    return _at("X", track, name, begin, args) | {"dur": (end - begin) / 1e3}


def span_text(track: Track, name: str, begin: int, end: int, args: str) -> str:
    """Return a span as JSON, as `span` has it: `name` is quoted, and `args` is what stands between the braces."""
    return (
        f'{{"ph":"X","name":{name},"pid":{track.pid},"tid":{track.tid},"ts":{begin / 1e3!r},"args":{{{args}}},'
        f'"dur":{(end - begin) / 1e3!r}}}'
    )


def instant(track: Track, name: str, at: int, **args: Any) -> Json:  # noqa: ANN401
    """Return a moment of a track, in nanoseconds."""
    return _at("i", track, name, at, args) | {"s": "t"}


def wait(key: str, begin: int, end: int, **args: Any) -> tuple[Json, Json]:  # noqa: ANN401
    """Return somebody's wait in the queue, which may overlap others'; the key names it within that process."""
    about = {
        "cat": "queue",
        "id2": {"local": key},
        "pid": QUEUE,
        "tid": WAITING.tid,
        "name": "wait",
    }  # one name: Perfetto draws a row for each
    return about | {"ph": "b", "ts": begin / 1e3, "args": args}, about | {"ph": "e", "ts": end / 1e3}


def count(pid: int, name: str, at: int, value: int) -> Json:
    """Return the new value of a figure that is drawn as a curve."""
    return {"ph": "C", "name": name, "pid": pid, "tid": 0, "ts": at / 1e3, "args": {name: value}}


def _at(phase: str, track: Track, name: str, at: int, args: Json) -> Json:
    return {"ph": phase, "name": name, "pid": track.pid, "tid": track.tid, "ts": at / 1e3, "args": args}


@dataclass(frozen=True, slots=True)
class BegunStep:
    """A step that runs.

    Attributes:
        since: when it began, in nanoseconds.
        event: what it runs.
    """

    since: int
    event: StepBegins


@dataclass(frozen=True, slots=True)
class DrawnStep:
    """A step that has ended, in several spans.

    Attributes:
        step: as it ran.
        end: when it ended, in nanoseconds.
        outcomes: whether each part was computed, and layers that ran after its cancel; none where the step failed.
        error: why it failed; empty where it did not.
        layer_ends: when each layer ended, in seconds on the executor's clock; none where the step failed.  In a burst
            they are counted on.
        zero: the beginning of the recording, likewise.
        steps: how many there were, in a burst.
    """

    step: BegunStep
    end: int
    outcomes: tuple[tuple[bool, int], ...] = ()
    error: str = ""
    layer_ends: tuple[float, ...] = ()
    zero: float = 0.0
    steps: int = 1

    def __len__(self) -> int:
        """Return how many spans it is."""
        return 1 + len(self.layer_ends) + len(self.step.event.parts)

    def texts(self) -> Iterator[str]:
        """Yield the spans, each as JSON."""
        event, since = self.step.event, self.step.since
        track, kind = (DRAFT_STEPS, "draft") if event.drafting else (STEPS, "step")
        error = f',"error":{quoted(self.error)}' if self.error else ""
        rows = sum(len(part.token_ids) for part in event.parts)
        yield span_text(
            track, f'"{kind} {event.number}"', since, self.end, f'"rows":{rows},"steps":{self.steps}{error}'
        )
        began = since
        for number, at in enumerate(self.layer_ends):
            # Two clocks are rounded apart by less than a microsecond: a layer is within its step.
            ended = min(max(began, round((at - self.zero) * 1e9)), self.end)
            yield span_text(track, f'"layer {number}"', began, ended, "")
            began = ended
        for number, part in enumerate(event.parts):
            about = f'"request_id":{quoted(part.request_id)},"index":{part.index},"rows":{len(part.token_ids)}'
            about += f',"start":{part.start},"drafts":{part.drafts}{error}'
            if self.outcomes:
                computed, after_cancel = self.outcomes[number]
                about += f',"computed":{"true" if computed else "false"},"layers_after_cancel":{after_cancel}'
            yield span_text(work(part.slot), quoted(part.phase.value), since, self.end, about)
