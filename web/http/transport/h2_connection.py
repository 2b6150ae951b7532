"""h2's state machine of a connection, with what cede wants otherwise: fewer frames at a time, and bounds of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import h2.config
import h2.connection
import h2.events
import h2.settings
import trio
from h2.errors import ErrorCodes
from h2.exceptions import DenialOfServiceError
from h2.frame_buffer import FrameBuffer
from hyperframe.frame import HeadersFrame

from web.http.transport.frame_budget import FrameBudget, cost

if TYPE_CHECKING:
    from hyperframe.frame import Frame, GoAwayFrame

    from web.http.transport.context import ServerContext

TURN_FRAMES = 16
"""Frames that are handled in one turn at most: they take half a millisecond.  One of them may begin a request."""

_TYPE = 3
"""The place of a frame's type in it."""


class FrameQueue(FrameBuffer):
    """h2's buffer of what came, which gives out frames for one turn at a time.

    Attributes:
        is_cut: whether the last turn ended before the frames did.
    """

    def __init__(self) -> None:
        super().__init__(server=True)
        self._left = self._requests_left = 0
        self.is_cut = False

    def begin_turn(self) -> None:
        """Let more frames be given out."""
        self._left, self._requests_left, self.is_cut = TURN_FRAMES, 1, False

    def __next__(self) -> Frame:
        """Return the next frame.  Raises StopIteration if none has come, or the turn is over."""
        is_request = self._data[_TYPE : _TYPE + 1] == bytes([HeadersFrame.type])
        if self._left <= 0 or (is_request and not self._requests_left):
            self.is_cut = True
            raise StopIteration
        self._left -= 1
        self._requests_left -= is_request
        return super().__next__()


class H2Connection(h2.connection.H2Connection):
    """h2's connection, which ends where a client asks too much, and not where it says goodbye without an error.

    A client that says goodbye so opens no more streams, and those that are open are to be answered (RFC 9113, 6.8).

    Attributes:
        budget: of frames that bring no work.  Whoever exceeds it is told ENHANCE_YOUR_CALM, which ends the connection.
    """

    def __init__(self, server: ServerContext) -> None:
        super().__init__(h2.config.H2Configuration(client_side=False, header_encoding=None))
        self.incoming_buffer: FrameQueue = FrameQueue()
        self.budget = FrameBudget(trio.current_time())
        announced = {
            h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: server.limits.streams,
            h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: server.config.h2_max_header_list_size,
        }
        self.local_settings = _LocalSettings(client=False, initial_values=announced)

    def receive_some(self, data: bytes) -> list[h2.events.Event]:
        """Receive bytes, and return the events of one turn; more of them wait if `is_cut`."""
        self.incoming_buffer.begin_turn()
        return self.receive_data(data)

    @property
    def is_cut(self) -> bool:
        """Return whether the last turn ended before the frames did."""
        return self.incoming_buffer.is_cut

    def _receive_frame(self, frame: Frame) -> list[h2.events.Event]:
        if not self.budget.take(cost(frame), trio.current_time()):
            raise DenialOfServiceError("too many frames without work")
        return super()._receive_frame(frame)

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[h2.events.Event]]:
        if frame.error_code != ErrorCodes.NO_ERROR:
            return super()._receive_goaway_frame(frame)
        return [], [h2.events.ConnectionTerminated()]


class _LocalSettings(h2.settings.Settings):
    """Settings whose bound on streams h2 announces and does not enforce.

    h2 would end the connection of a client that opens a stream too many.  `Http2Protocol` refuses that stream instead.
    """

    @property  # type: ignore[misc]  # nothing sets it
    def max_concurrent_streams(self) -> int:
        return 2**31
