"""HTTP/2 that no client sends: each connection is fixed by one integer, and begins with the preface of the protocol."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from random import Random

import h2.config
import h2.connection
import h2.events
import h2.exceptions

from web.openapi.operations import Operation

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PSEUDO = ((b":method", b"POST"), (b":path", b"/v1/completions"), (b":scheme", b"http"), (b":authority", b"localhost"))
ODD_HEADERS = (
    *((b"Upper", b"case"), (b"connection", b"close"), (b"keep-alive", b"5"), (b"content-length", b"7"), (b"x", b"\0")),
    *(
        (b":status", b"200"),
        (b":path", b""),
        (b"", b"x"),
        (b"x" * 9000, b"y"),
        (b"x", b"y" * 70_000),
        (b"host", b"a b"),
    ),
    *((b"transfer-encoding", b"chunked"), (b"cookie", b"a=b; =;;"), (b"authorization", b"Bearer \xff")),
)


def draw_frames(dice: Random, operation: Operation, path: str) -> bytes:
    """Return the bytes of a connection with one request, and what is wrong with it or beside it."""
    body = json.dumps(operation.example or {}).encode()
    headers = [(name, value) for name, value in PSEUDO if name not in (b":path", b":method")]
    headers = [(b":method", operation.method.upper().encode()), (b":path", path.encode()), *headers]
    plain = _request(headers, body)
    kinds: list[Callable[[], bytes]] = [
        lambda: (
            plain + frame(dice.randrange(12), dice.randrange(256), dice.choice([0, 1, 2, 3, 99]), dice.randbytes(9))
        ),
        lambda: _torn(dice, plain),
        lambda: _request(dice.sample(headers, k=3), body),
        lambda: _request([*headers, *dice.sample(ODD_HEADERS, k=2)], body),
        lambda: _request(headers[::-1], body),
        lambda: plain + frame(3, 0, 1, struct.pack(">I", 8)) * dice.choice([1, 50]),
        lambda: plain + frame(6, 0, 0, bytes(8)) * 300,
        lambda: plain + frame(4, 0, 0, b"") * 300,
        lambda: _request(headers, body, end=False) + frame(7, 0, 0, struct.pack(">II", 0, dice.randrange(14))),
        lambda: PREFACE + frame(1, 1, 1, dice.randbytes(dice.choice([0, 5, 300]))),
        lambda: plain + frame(1, 0, 3, b"\x82") + frame(9, 0, 3, dice.randbytes(9000)) * 20,
    ]
    return dice.choice(kinds)()


def frame(kind: int, flags: int, stream_id: int, payload: bytes) -> bytes:
    """Return one frame."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream_id) + payload


def statuses(answer: bytes) -> list[int]:
    """Return the statuses of the responses in what a server sent, up to where that cannot be read."""
    client = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
    client.initiate_connection()
    for stream_id in (1, 3):
        client.send_headers(stream_id, [(":method", "GET"), (":path", "/"), (":scheme", "http"), (":authority", "a")])
    try:
        events = client.receive_data(answer)
    except h2.exceptions.ProtocolError:
        return []
    found = [dict(event.headers or ()) for event in events if isinstance(event, h2.events.ResponseReceived)]
    return [int(headers[":status"]) for headers in found]  # type: ignore[index]  # they are decoded


def _request(headers: list[tuple[bytes, bytes]], body: bytes, *, end: bool = True) -> bytes:
    client = h2.connection.H2Connection(
        h2.config.H2Configuration(
            validate_outbound_headers=False, normalize_outbound_headers=False, header_encoding=None
        )
    )
    client.initiate_connection()
    block = client.encoder.encode(headers)
    return client.data_to_send() + frame(1, 4, 1, block[:16_000]) + frame(0, int(end), 1, body[:16_000])


def _torn(dice: Random, raw: bytes) -> bytes:
    """Return the same with a few bytes behind the preface lost or changed."""
    for _ in range(dice.choice([1, 3, 10])):
        place = dice.randrange(len(PREFACE), len(raw))
        raw = (
            raw[:place]
            + dice.choice([b"", dice.randbytes(1), dice.randbytes(5)])
            + raw[place + dice.choice([0, 1, 9]) :]
        )
    return raw
