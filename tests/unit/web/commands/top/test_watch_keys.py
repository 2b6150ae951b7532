"""Keys that a terminal sends."""

from __future__ import annotations

import pytest

from web.commands.top.watch import pressed


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"h", ["hang up"]),
        (b"\x1b[A\x1bOBq", ["up", "down", "quit"]),
        (b"jk", ["down", "up"]),
        (b"\x1b[1;5H\x1b[3~\xc3\xa9x", []),  # none of these is an h
        (b"", []),
    ],
)
def test_keys_are_told_apart(data: bytes, keys: list[str]) -> None:
    assert pressed(data) == keys
