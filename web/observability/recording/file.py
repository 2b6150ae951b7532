"""The file of a recording: a bounded buffer, and a thread that writes what is in it.

Whoever puts an event waits for no disk.  What the buffer has no room for, and what the disk has none for, is dropped
and counted.  The file is an array of JSON whose end is written last; readers of the format do without it, so the file
of a process that was killed is read as far as it goes.
"""

from __future__ import annotations

import json
import logging
import threading
from typing import TYPE_CHECKING, Protocol, TypeAlias

from runtime.errors import CedeError
from web.observability.recording.trace_events import DrawnStep

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from web.observability.recording.trace_events import Json

logger = logging.getLogger("cede.web")

Event: TypeAlias = "Json | DrawnStep"

CAPACITY = 1 << 16  # events; a busy server makes some thousand in a second
# Events are written together: a thread that woke for each layer of a step would take the interpreter from those that
# run it (bench/LOG.md).
PAUSE_SECONDS = 0.25
HURRY_SHARE = 4  # of the buffer, a quarter that is full is written at once
# While they become text the interpreter is taken, and let go of with each write: so not all that waits at once.
WRITE_EVENTS = 32


class RecordingError(CedeError):
    """The file cannot be written."""


class RawFile(Protocol):
    """File that is written to, without a buffer of its own."""

    def write(self, data: bytes, /) -> int | None:
        """Write some of the bytes, and return how many."""

    def seek(self, offset: int, /) -> int:
        """Go to a place."""

    def truncate(self, size: int, /) -> int:
        """Cut what lies beyond."""

    def close(self) -> None:
        """Close it."""


def check_writable(path: Path) -> None:
    """Raise RecordingError if there can be no such file.  What is in it stays.  A pipe is asked for its reader once."""
    try:
        if not path.is_fifo():
            path.open("ab").close()
    except OSError as error:
        raise RecordingError(f"--record: {path} cannot be written: {error.strerror}") from None


def open_file(path: Path) -> RawFile:
    """Open an empty file.

    Raises:
        RecordingError: it cannot be written.
    """
    try:
        return path.open("wb", buffering=0)
    except OSError as error:
        raise RecordingError(f"--record: {path} cannot be written: {error.strerror}") from None


class RecordingFile:
    """Takes events in any thread, and writes them in one of its own, from `start` to `close`.

    Args:
        file: empty; the thread closes it, which may wait for the disk, too.
        capacity: of the buffer, in events.
    """

    def __init__(self, file: RawFile, capacity: int = CAPACITY) -> None:
        self._file = file
        self._capacity = capacity
        self._hurry = max(1, capacity // HURRY_SHARE)
        self._changed = threading.Condition()
        self._waiting: list[tuple[Event, ...]] = []  # each what belongs together
        self._count = 0  # of events that wait
        self._is_closed = False
        self._put = self._dropped = self._written = 0
        self._size = 0  # of what is whole
        self._fault, self._is_broken = "", False
        self._thread = threading.Thread(target=self._run, name="cede-recording", daemon=True)

    @property
    def written(self) -> int:
        """Events that are in the file."""
        return self._written

    @property
    def dropped(self) -> int:
        """Events that are not and will not be."""
        return self._dropped

    @property
    def unwritten(self) -> int:
        """Events that may be yet."""
        return self._put - self._written - self._dropped

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def put(self, *events: Event) -> None:
        """Have events written that belong together, or drop them all; never waits for the disk."""
        count = _count(events)
        with self._changed:
            self._put += count
            if fits := self._count + count <= self._capacity and not self._is_closed:
                was_empty = not self._waiting
                self._waiting.append(events)
                self._count += count
                if was_empty or self._count >= self._hurry:
                    self._changed.notify()
        if not fits:
            self._drop(count, "the disk is too slow")

    def close(self, seconds: float) -> bool:
        """Have the rest written, and wait for that; false if the disk has taken nothing for so long."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        size = -1
        while self._thread.is_alive() and size != self._size:
            size = self._size
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def _drop(self, events: int, why: str) -> None:
        with self._changed:
            is_first = not self._dropped
            self._dropped += events
        if is_first:
            logger.warning("--record: events are dropped: %s", why)

    def _run(self) -> None:
        while taken := self._take():
            for texts in _batches(taken):
                text = ",\n".join(texts)
                if self._write(f"{',' if self._written else '['}\n{text}".encode()):
                    self._written += len(texts)
                else:
                    self._drop(len(texts), self._fault)
        self._write(b"\n]\n" if self._written else b"[]\n")
        self._file.close()

    def _take(self) -> list[tuple[Event, ...]]:
        """Return what waits, a moment after there is something; nothing at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            self._changed.wait_for(lambda: self._count >= self._hurry or self._is_closed, PAUSE_SECONDS)
            taken, self._waiting, self._count = self._waiting, [], 0
        return taken

    def _write(self, data: bytes) -> bool:
        """Write all of it, or nothing: false where that failed."""
        if self._is_broken:
            return False
        try:
            rest = data
            while rest:
                rest = rest[self._file.write(rest) or 0 :]
        except OSError as error:
            self._fault = error.strerror or str(error)
            self._cut()
            return False
        self._size += len(data)
        return True

    def _cut(self) -> None:
        """Take away what was written of a batch, so that what was before is read; without that, write no more."""
        try:
            self._file.truncate(self._size)
            self._file.seek(self._size)
        except OSError:
            self._is_broken = True


def _count(events: Iterable[Event]) -> int:
    """Return how many events of the format these are."""
    return sum(len(event) if isinstance(event, DrawnStep) else 1 for event in events)


def _batches(taken: Iterable[tuple[Event, ...]]) -> Iterator[list[str]]:
    """Yield all of it as JSON, some events at a time; what belongs together is not torn apart."""
    texts: list[str] = []
    for events in taken:
        for event in events:
            if isinstance(event, DrawnStep):
                texts += event.texts()
            else:
                texts.append(json.dumps(event, separators=(",", ":")))
        if len(texts) >= WRITE_EVENTS:
            yield texts
            texts = []
    if texts:
        yield texts
