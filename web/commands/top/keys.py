"""Keys of a terminal, from what it sends.  Pure."""

from __future__ import annotations

import re

_SEQUENCE = re.compile(rb"\x1b[\[O][0-9;]*[A-Za-z~]|[\x00-\x7f]")
_NAMES = {b"\x1b[A": "up", b"\x1bOA": "up", b"k": "up", b"\x1b[B": "down", b"\x1bOB": "down", b"j": "down"}
_NAMES |= {b"h": "hang up", b"q": "quit", b"Q": "quit"}


def pressed(data: bytes) -> list[str]:
    """The keys that mean something, of those that these bytes stand for."""
    return [_NAMES[found] for found in _SEQUENCE.findall(data) if found in _NAMES]
