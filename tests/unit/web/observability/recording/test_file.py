"""The file of a recording, on disks that are slow, full or gone."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from actors.core.events import StepBegins
from tests.live.server import PATIENCE, wait_for
from tests.sim.instruments.picture import read
from web.observability.recording.file import RecordingError, RecordingFile, check_writable, open_file
from web.observability.recording.trace_events import BegunStep, DrawnStep, Json


def event(number: int) -> Json:
    return {"ph": "i", "name": str(number), "args": {"text": "ü\n\x1b"}}


class Disk:
    """A stand-in for a file: it has room for so many bytes, and writes while `answers` is set.

    Attributes:
        data: that was written.
        is_closed: at the end.
        is_asked: set when somebody writes.
    """

    def __init__(self, room: float = float("inf"), *, can_cut: bool = True) -> None:
        self.data = b""
        self.room = room
        self.can_cut = can_cut
        self.is_closed = False
        self.answers, self.is_asked = threading.Event(), threading.Event()
        self.answers.set()

    def write(self, data: bytes) -> int:
        """Write a part of it."""
        self.is_asked.set()
        assert self.answers.wait(PATIENCE)
        if self.room <= len(self.data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = data[: int(min(100, self.room - len(self.data)))]
        self.data += taken
        return len(taken)

    def truncate(self, size: int) -> int:
        """Cut the file, unless it is none that can be cut."""
        if not self.can_cut:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self.data = self.data[:size]
        return size

    def seek(self, offset: int) -> int:
        """Go to a place; writing goes on at the end anyway."""
        assert offset == len(self.data)
        return offset

    def close(self) -> None:
        """Take nothing more."""
        self.is_closed = True


def test_what_is_put_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text("something longer that was there before")
    check_writable(path)
    recording = RecordingFile(open_file(path))
    recording.start()
    for number in range(500):
        recording.put(event(2 * number), event(2 * number + 1))
    assert recording.close(PATIENCE)
    assert read(path.read_text()) == [event(number) for number in range(1000)]
    assert path.read_text().endswith("]\n")
    assert (recording.written, recording.dropped) == (1000, 0)


def test_a_step_counts_as_all_that_is_drawn_of_it_and_is_dropped_as_a_whole() -> None:
    disk = Disk()
    recording = RecordingFile(disk, capacity=4)
    step = DrawnStep(BegunStep(0, StepBegins(1, drafting=False, parts=())), 3, layer_ends=(1e-9, 2e-9))
    recording.put(event(0), step)
    recording.put(step)
    recording.start()
    assert recording.close(PATIENCE)
    assert [told["name"] for told in read(disk.data.decode())] == ["0", "step 1", "layer 0", "layer 1"]
    assert (recording.written, recording.dropped) == (4, 3)


def test_an_empty_recording_is_an_empty_array() -> None:
    disk = Disk()
    recording = RecordingFile(disk)
    recording.start()
    assert recording.close(PATIENCE)
    assert read(disk.data.decode()) == []


def test_a_file_that_has_no_end_yet_is_read() -> None:
    """As that of a process that was killed."""
    disk = Disk()
    recording = RecordingFile(disk)
    recording.start()
    for number in range(3):
        recording.put(event(number))
    _wait_written(recording, 3)
    assert not disk.data.endswith(b"]\n")
    assert read(disk.data.decode()) == [event(number) for number in range(3)]
    assert recording.close(PATIENCE)


def test_a_slow_disk_costs_events_and_nobody_waits(caplog: pytest.LogCaptureFixture) -> None:
    disk = Disk()
    disk.answers.clear()
    recording = RecordingFile(disk, capacity=10)
    recording.start()
    recording.put(event(0))
    assert disk.is_asked.wait(PATIENCE)  # the thread is at it, and the buffer empty
    for number in range(1, 31):
        recording.put(event(number))
    assert recording.dropped == 20
    assert caplog.messages == ["--record: events are dropped: the disk is too slow"]
    disk.answers.set()
    assert recording.close(PATIENCE)
    assert read(disk.data.decode()) == [event(number) for number in range(11)]
    assert len(caplog.messages) == 1


def test_events_that_belong_together_are_dropped_together() -> None:
    disk = Disk()
    disk.answers.clear()
    recording = RecordingFile(disk, capacity=3)
    recording.start()
    recording.put(event(0))
    assert disk.is_asked.wait(PATIENCE)
    recording.put(event(1), event(2))
    recording.put(event(3), event(4))
    recording.put(event(5))
    disk.answers.set()
    assert recording.close(PATIENCE)
    assert read(disk.data.decode()) == [event(number) for number in (0, 1, 2, 5)]


def test_a_full_disk_costs_events_and_the_file_stays_whole(caplog: pytest.LogCaptureFixture) -> None:
    disk = Disk()
    recording = RecordingFile(disk)
    recording.start()
    recording.put(event(0))
    assert disk.is_asked.wait(PATIENCE)
    _wait_written(recording, 1)
    disk.room = len(disk.data) + 30  # less than an event
    recording.put(event(1))
    _wait_dropped(recording, 1)
    recording.put(event(2))
    _wait_dropped(recording, 2)
    assert read(disk.data.decode()) == [event(0)]
    disk.room = float("inf")
    recording.put(event(3))
    assert recording.close(PATIENCE)
    assert read(disk.data.decode()) == [event(0), event(3)]
    assert caplog.messages == ["--record: events are dropped: No space left on device"]


def test_what_cannot_be_cut_is_written_no_more() -> None:
    disk = Disk(room=30, can_cut=False)
    recording = RecordingFile(disk)
    recording.start()
    recording.put(event(0))
    _wait_dropped(recording, 1)
    disk.room = float("inf")
    recording.put(event(1))
    assert recording.close(PATIENCE)
    assert (recording.written, recording.dropped) == (0, 2)
    assert len(disk.data) == 30


def test_the_end_waits_for_a_disk_only_so_long() -> None:
    disk = Disk()
    disk.answers.clear()
    recording = RecordingFile(disk)
    recording.start()
    recording.put(event(0))
    assert disk.is_asked.wait(PATIENCE)
    assert not recording.close(0.0)
    assert recording.unwritten == 1
    was_closed = disk.is_closed
    disk.answers.set()
    assert recording.close(PATIENCE)
    assert (was_closed, disk.is_closed) == (False, True), "to close it could wait for the disk, too"
    assert recording.unwritten == 0


def test_a_file_that_cannot_be_is_refused(tmp_path: Path) -> None:
    for refuse in (check_writable, open_file):
        with pytest.raises(RecordingError) as refused:
            refuse(tmp_path / "not" / "there")
        assert str(refused.value).endswith("cannot be written: No such file or directory")


def _wait_written(recording: RecordingFile, events: int) -> None:
    wait_for(lambda: recording.written == events, f"{events} events in the file")


def _wait_dropped(recording: RecordingFile, events: int) -> None:
    wait_for(lambda: recording.dropped == events, f"{events} events to be dropped")
