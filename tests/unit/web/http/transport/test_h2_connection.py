"""Turn of a connection, and what it handles in one."""

from __future__ import annotations

from hyperframe.frame import HeadersFrame, PingFrame

from tests.hostile.frames import PREFACE, frame
from web.http.transport.h2_connection import TURN_FRAMES, FrameQueue

PING = frame(6, 0, 0, bytes(8))


def turns(received: bytes) -> list[list[type]]:
    """The types of the frames that are given out, turn by turn."""
    queue, given = FrameQueue(), []
    queue.max_frame_size = 2**14
    queue.add_data(PREFACE + received)
    queue.is_cut = True
    while queue.is_cut:
        queue.begin_turn()
        given.append([type(each) for each in queue])
    return given


def test_a_turn_has_so_many_frames() -> None:
    assert [len(turn) for turn in turns(PING * (2 * TURN_FRAMES + 3))] == [TURN_FRAMES, TURN_FRAMES, 3]


def test_a_turn_begins_one_request() -> None:
    asked = b"".join(frame(1, 5, number, b"\x82\x86\x84") + PING for number in (1, 3, 5))
    assert turns(asked) == [[HeadersFrame, PingFrame]] * 3
