"""The bound on what a client may send over HTTP/2 that brings no work: one account for every kind of frame.

A frame costs its sender nothing and the server some ten microseconds, and a request that is reset at once more: so
were servers held by pings, settings, priorities, empty data (CVE-2019-9512 to 9518), by resets (CVE-2023-44487), and by
what makes the server reset (CVE-2025-8671).  The remedy here is that of nghttp2, where each "glitch" takes a token of a
bucket (`nghttp2_option_set_glitch_rate_limit`: 1000 at once, then 33 a second), and of nginx, which weighs what came
against what was of use ("http2 flood detected" in ngx_http_v2.c): frames take, and what is answered gives back.  A
header in many frames of CONTINUATION (CVE-2024-27316) h2 bounds itself.  Over HTTP/1.1 a body in crumbs takes, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hyperframe.frame import DataFrame, HeadersFrame

from web.process.limits import FRAME_BURST, FRAME_RATE

if TYPE_CHECKING:
    from hyperframe.frame import Frame

REQUEST = 10
"""The cost of a request's header; it is given back when the response begins."""

REFUSED = 8
"""What is given back of it where the request was refused before it began."""

SENT = 4
"""What is given back for each frame of a response's body: some clients answer each with two windows and a ping."""

SMALL = 128
"""Bytes of a DATA frame's payload from which on it brings something."""


def cost(frame: Frame) -> int:
    """Return what a frame costs."""
    if isinstance(frame, HeadersFrame):
        return REQUEST
    if isinstance(frame, DataFrame):
        return int(len(frame.data) < SMALL and "END_STREAM" not in frame.flags)
    return 1


class FrameBudget:
    """An account of frames, which fills by itself with time and is full at first.

    Args:
        now: seconds, by a clock that later calls go on with.
    """

    def __init__(self, now: float) -> None:
        self._left = float(FRAME_BURST)
        self._as_of = now

    def take(self, units: int, now: float) -> bool:
        """Take units, if there are so many, and return whether there were."""
        self._left = min(FRAME_BURST, self._left + FRAME_RATE * (now - self._as_of))
        self._as_of = now
        if units > self._left:
            return False
        self._left -= units
        return True

    def give(self, units: int) -> None:
        """Give units back, for what was of use."""
        self._left = min(FRAME_BURST, self._left + units)
