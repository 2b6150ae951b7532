"""Sizes and durations as people write them."""

from __future__ import annotations

import re

from runtime.common.log_text import quoted

KIB, MIB, GIB = 2**10, 2**20, 2**30

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:([KMGTP])(i?)B?|B)?\s*", re.ASCII | re.IGNORECASE)
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([smhdw])?\s*", re.ASCII | re.IGNORECASE)
_POWERS = "KMGTP"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_MAX_SIZE = 2**63  # bytes; a file's offset is smaller
_MAX_DURATION = 2**63 / 1e9  # seconds; in nanoseconds a file's time is smaller


def parse_size(text: str) -> int:
    """Parse a size such as `2GiB`, `500 MB`, `1.5G` or `0`, and return its bytes.

    Units are powers of 1024 with an i or without the B, and of 1000 in KB, MB, GB.

    Raises:
        ValueError: it is not a size, or larger than any machine's.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{quoted(text)} is not a size; write one as 2GiB, 500MB or 0")
    number, letter, binary = match.groups()
    size = float(number)
    if letter:
        decimal = not binary and text.strip().upper().endswith("B")
        size *= (1000 if decimal else 1024) ** (_POWERS.index(letter.upper()) + 1)
    if size >= _MAX_SIZE:
        raise ValueError(f"{quoted(text, 20)} is more than any machine has")
    return int(size)


def parse_duration(text: str) -> float:
    """Parse a duration such as `90`, `90s`, `15m`, `12h`, `7d` or `2w`, and return its seconds.

    Raises:
        ValueError: it is not a duration, or longer than a file's time can be.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{quoted(text)} is not a duration; write one as 90s, 15m, 12h or 7d")
    number, unit = match.groups()
    seconds = float(number) * _SECONDS[(unit or "s").lower()]
    if seconds >= _MAX_DURATION:
        raise ValueError(f"{quoted(text, 20)} is more than 292 years")
    return seconds


def counted(number: int, noun: str) -> str:
    """Write a number with its noun: `1 request`, `2 requests`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def format_size(size: int) -> str:
    """Write `size`, in bytes, in binary units: `1.5 GiB`."""
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f}".removesuffix(".0") + f" {unit}"
