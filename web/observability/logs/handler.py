"""Writes the log, and what is said on the standard output, in a thread: nobody who logs waits for a reader."""

from __future__ import annotations

import logging
import os
import select
import sys
import threading
from collections import deque

CAPACITY = 1 << 20  # bytes of lines that wait: some thousand
FLUSH_SECONDS = 1.0  # that the process's end waits for a reader


class LineHandler(logging.Handler):
    """A handler whose lines are made when they are logged, and written, in their order, by a thread of its own.

    What waits is bounded.  While a reader stalls, what does not fit is dropped and counted, and a line says so where
    the dropped ones would have been.  (`logging.handlers.QueueListener` waits for its thread without a bound, and
    bounds records and not bytes.)

    The thread writes past Python's streams.  They have locks, and an interpreter that ends waits for one that a stalled
    write holds; a thread in a system call it does not wait for.

    Args:
        capacity: bytes.
        log, output: descriptors of the streams.
    """

    def __init__(self, capacity: int = CAPACITY, *, log: int = 2, output: int = 1) -> None:
        super().__init__()
        self._capacity = capacity
        self._log, self._output = log, output
        # Of all that follows.  Its lock is the one that whoever logs holds already: a finalizer may log in any thread.
        # It is reentrant, as handlers of signals log, too.
        self._changed = threading.Condition(self.lock)
        self._waiting: deque[tuple[int, bytes]] = deque()  # the first is being written
        self._size = 0
        self._lost = 0
        self._thread: threading.Thread | None = None

    @property
    def is_stalled(self) -> bool:
        """Return whether anything still waits to be written."""
        return bool(self._waiting)

    def emit(self, record: logging.LogRecord) -> None:
        """Have a record written, as it is now."""
        try:
            line = self.format(record)
        except Exception:
            where = f"{record.pathname}:{record.lineno}"
            line = self.format(self._record("a line of the log cannot be made: %s", where, exc_info=True))
        self._put(self._log, line)

    def say(self, line: str) -> None:
        """Have a line written to the standard output, behind what was logged before."""
        self._put(self._output, line)

    def flush(self) -> None:
        """Wait a moment for what was logged to be written; `logging.shutdown` calls it."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting, FLUSH_SECONDS)

    def _put(self, descriptor: int, text: str) -> None:
        line = (text + "\n").encode(sys.stderr.encoding, "backslashreplace")
        with self._changed:
            if self._waiting and (self._lost or self._size + len(line) > self._capacity):
                self._lost += 1
                return
            self._append(descriptor, line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_lines, name="cede-log", daemon=True)
                self._thread.start()

    def _append(self, descriptor: int, line: bytes) -> None:
        self._waiting.append((descriptor, line))
        self._size += len(line)
        self._changed.notify_all()

    def _write_lines(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                descriptor, line = self._waiting[0]
            _write(descriptor, line)
            with self._changed:
                self._waiting.popleft()
                self._size -= len(line)
                self._tell_lost()
                self._changed.notify_all()

    def _tell_lost(self) -> None:
        """Say how many lines were lost, once there is room: until then none is taken, so it stands where they were."""
        if self._lost and 2 * self._size <= self._capacity:
            lost, self._lost = self._lost, 0
            told = self._record("%d lines of the log were lost: its reader stalled", lost)
            self._append(self._log, (self.format(told) + "\n").encode(errors="backslashreplace"))

    def _record(self, message: str, *args: object, exc_info: bool = False) -> logging.LogRecord:
        return logging.LogRecord(
            "cede.web", logging.WARNING, __file__, 0, message, args, sys.exc_info() if exc_info else None
        )


def _write(descriptor: int, line: bytes) -> None:
    """Write a line, whole: other processes may write to the same pipe.  Drop it where the stream takes none."""
    while line:
        try:
            line = line[os.write(descriptor, line) :]
        except BlockingIOError:  # somebody who shares the stream has made it so
            select.select([], [descriptor], [])
        except OSError:
            return
