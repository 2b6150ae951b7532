"""The thread that writes the log: who reads it, when and whether, is nobody's loss who logs."""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.live.server import PATIENCE
from web.observability.logs import handler as module
from web.observability.logs.handler import LineHandler

LOST = "%d lines of the log were lost: its reader stalled"


class Stream:
    """A pipe, full from the beginning, whose reader is the test."""

    def __init__(self) -> None:
        self._reader: int | None
        self._reader, self.descriptor = os.pipe()
        os.set_blocking(self.descriptor, False)
        self.full = 0
        for size in (4096, 1):
            try:
                while True:
                    self.full += os.write(self.descriptor, b"." * size)
            except BlockingIOError:
                pass
        os.set_blocking(self.descriptor, True)

    def read(self, until: str) -> list[str]:
        """Read what was in the pipe, and all lines up to this one."""
        assert self._reader is not None
        data = b""
        while not data.endswith(until.encode() + b"\n"):
            assert select.select([self._reader], [], [], PATIENCE)[0], data[self.full :]
            data += os.read(self._reader, 4096)
        return data[self.full :].decode().splitlines()

    def leave(self) -> None:
        """Read no more, ever."""
        if self._reader is not None:
            os.close(self._reader)
        self._reader = None


@contextmanager
def logging_to(stream: Stream, handler: LineHandler) -> Iterator[logging.Logger]:
    """A logger whose lines go through the handler."""
    logger = logging.Logger("cede.web")
    logger.addHandler(handler)
    try:
        yield logger
    finally:
        stream.leave()
        handler.flush()  # what is left goes nowhere
        os.close(stream.descriptor)


@pytest.fixture
def stream() -> Stream:
    return Stream()


def test_what_does_not_fit_is_counted_and_said_where_it_would_have_been(stream: Stream) -> None:
    handler = LineHandler(capacity=100, log=stream.descriptor)
    with logging_to(stream, handler) as logger:
        for number in range(20):
            logger.warning("line %04d.", number)  # of eleven bytes
        assert handler.is_stalled
        kept = [f"line {number:04}." for number in range(9)]
        assert stream.read(LOST % 11) == [*kept, LOST % 11]
        stream.full = 0
        logger.warning("and on")
        assert stream.read("and on") == ["and on"]


def test_no_line_goes_before_one_that_was_lost(stream: Stream) -> None:
    handler = LineHandler(capacity=100, log=stream.descriptor)
    with logging_to(stream, handler) as logger:
        logger.warning("1" * 80)
        logger.warning("2" * 80)
        logger.warning("3")  # for which there is room
        assert stream.read(LOST % 2) == ["1" * 80, LOST % 2]


def test_a_line_longer_than_all_that_may_wait_silences_nothing(stream: Stream) -> None:
    handler = LineHandler(capacity=100, log=stream.descriptor)
    with logging_to(stream, handler) as logger:
        logger.warning("1" * 500)
        assert stream.read("1" * 500) == ["1" * 500]
        handler.flush()
        stream.full = 0
        logger.warning("on")
        assert stream.read("on") == ["on"]


def test_who_writes_holds_no_lock_that_a_finalizer_could_not_take_there(stream: Stream) -> None:
    """A finalizer runs in any thread, amid anything, and may log: there is one lock, which the writer has already."""
    handler = LineHandler(capacity=100, log=stream.descriptor)
    taken = list[bool]()
    lock = handler.lock
    assert lock is not None
    acquire = lock.acquire

    class Formatter(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            if record.msg == LOST:
                other = threading.Thread(target=lambda: taken.append(acquire(blocking=False)))
                other.start()
                other.join()
            return super().format(record)

    handler.setFormatter(Formatter())
    with logging_to(stream, handler) as logger:
        logger.warning("1" * 80)
        logger.warning("2" * 80)
        stream.read(LOST % 1)
    assert taken == [False]


def test_a_line_is_made_when_it_is_logged(stream: Stream) -> None:
    handler = LineHandler(log=stream.descriptor)
    with logging_to(stream, handler) as logger:
        things = ["one"]
        logger.warning("%s", things)
        things.append("two")
        assert stream.read("['one']") == ["['one']"]


def test_what_is_said_comes_between_what_was_logged_before_and_after(stream: Stream) -> None:
    handler = LineHandler(log=stream.descriptor, output=stream.descriptor)
    with logging_to(stream, handler) as logger:
        logger.warning("before")
        handler.say("said")
        logger.warning("after")
        assert stream.read("after") == ["before", "said", "after"]


def test_a_line_that_cannot_be_made_is_said_to_be_none(stream: Stream) -> None:
    handler = LineHandler(log=stream.descriptor)
    with logging_to(stream, handler) as logger:
        logger.warning("%d", "no number")
        logger.warning("on")
        first, *_, last = stream.read("on")
        assert first.startswith("a line of the log cannot be made: ")
        assert last == "on"


def test_a_stream_that_another_process_has_made_non_blocking_loses_nothing(stream: Stream) -> None:
    os.set_blocking(stream.descriptor, False)
    handler = LineHandler(log=stream.descriptor)
    with logging_to(stream, handler) as logger:
        lines = [f"{number} {'x' * 4000}" for number in range(20)]
        for line in lines:
            logger.warning(line)
        assert stream.read(lines[-1]) == lines


def test_a_reader_that_has_gone_costs_nothing_but_its_lines(stream: Stream) -> None:
    handler = LineHandler(log=stream.descriptor)
    with logging_to(stream, handler) as logger:
        stream.leave()
        logger.warning("to nobody")
        handler.flush()
        assert not handler.is_stalled


def test_the_end_waits_for_a_stalled_reader_only_so_long(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FLUSH_SECONDS", 0.01)
    handler = LineHandler(log=stream.descriptor)
    with logging_to(stream, handler) as logger:
        logger.warning("kept")
        handler.flush()
        assert handler.is_stalled
        assert stream.read("kept") == ["kept"]


def test_the_end_waits_for_a_reader_that_reads(stream: Stream) -> None:
    handler = LineHandler(log=stream.descriptor)
    with logging_to(stream, handler) as logger:
        logger.warning("last")
        read: list[str] = []
        reader = threading.Thread(target=lambda: read.extend(stream.read("last")))
        reader.start()
        handler.flush()
        reader.join()
        assert read == ["last"]
        handler.flush()
        assert not handler.is_stalled
