"""Requests whose end is doubtful: none of what comes behind them is taken for a request."""

from __future__ import annotations

import re

import h2.connection
import pytest
import trio

from tests.hostile.frames import PREFACE, PSEUDO, frame
from tests.live.server import PATIENCE
from tests.unit.web.http.transport.guarded import get_request, read_answers, serving

BEHIND = get_request("/behind")
HEAD = b"POST /measure HTTP/1.1\r\nHost: a\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"

CLOSED = {  # answered, and the connection is closed behind the answer
    "a length and chunks": HEAD + b"Content-Length: 3\r\n" + CHUNKED + b"\r\n0\r\n\r\n",
    "chunks and a length": HEAD + CHUNKED + b"Content-Length: 5\r\n\r\n0\r\n\r\n",
    "a header that goes on in the next line": HEAD + b"X: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    "an encoding in the next line": HEAD + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "a line without its CR": HEAD + b"X: a\nContent-Length: 0\r\n\r\n",
    "a head without CRs": b"GET /measure HTTP/1.1\nHost: a\n\n",
    "chunks in HTTP/1.0": b"POST /measure HTTP/1.0\r\nConnection: keep-alive\r\n" + CHUNKED + b"\r\n0\r\n\r\n",
    "kept alive in HTTP/1.0": b"POST /measure HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
}
REFUSED = {
    "two lengths": (400, HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc"),
    "two lengths in one line": (400, HEAD + b"Content-Length: 3, 4\r\n\r\nabc"),
    "a length with a sign": (400, HEAD + b"Content-Length: +3\r\n\r\nabc"),
    "a negative length": (400, HEAD + b"Content-Length: -3\r\n\r\nabc"),
    "a length in base 16": (400, HEAD + b"Content-Length: 0x3\r\n\r\nabc"),
    "a length in two lines": (400, HEAD + b"Content-Length: 1\r\n 0\r\n\r\nabc"),
    "no length": (400, HEAD + b"Content-Length: \r\n\r\nabc"),
    "a space behind a name": (400, HEAD + b"Content-Length : 3\r\n\r\nabc"),
    "a tab behind a name": (400, HEAD + b"Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n"),
    "a CR in a value": (400, HEAD + b"X: a\rContent-Length: 3\r\n\r\nabc"),
    "a NUL in a value": (400, HEAD + b"X: a\0b\r\n\r\n"),
    "chunks behind a vertical tab": (400, HEAD + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n"),
    "an encoding that does not end in chunks": (501, HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
    "no encoding": (501, HEAD + b"Transfer-Encoding: identity\r\n\r\n"),
    "another encoding": (501, HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    "an encoding below chunks": (501, HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    "two encodings": (501, HEAD + CHUNKED + b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n"),
    "a chunk's size with a sign": (400, HEAD + CHUNKED + b"\r\n+3\r\nabc\r\n0\r\n\r\n"),
    "a chunk's size with a prefix": (400, HEAD + CHUNKED + b"\r\n0x3\r\nabc\r\n0\r\n\r\n"),
    "a chunk's size without its CR": (400, HEAD + CHUNKED + b"\r\n3\nabc\r\n0\r\n\r\n"),
    "a chunk longer than it says": (400, HEAD + CHUNKED + b"\r\n3\r\nabcde0\r\n\r\n"),
    "a chunk without its CR": (400, HEAD + CHUNKED + b"\r\n3\r\nabc\n0\r\n\r\n"),
    "a chunk's extension with an LF": (400, HEAD + CHUNKED + b"\r\n3;a\nb\r\nabc\r\n0\r\n\r\n"),
    "two hosts": (400, HEAD + b"Host: b\r\nContent-Length: 0\r\n\r\n"),
    "a space in a target": (400, b"GET /measure /x HTTP/1.1\r\nHost: a\r\n\r\n"),
}
KEPT = {
    "the same length twice": HEAD + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "chunks in capitals": HEAD + b"Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n",
    "a body beside an upgrade": HEAD + b"Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\nabc",
    "a trailer that is called a length": HEAD + CHUNKED + b"\r\n0\r\nContent-Length: 99\r\n\r\n",
}


async def statuses(request: bytes) -> list[int]:
    """Return what a server answers to a request with another one behind it, until it closes; that was never begun."""
    async with serving() as server, await server.connect() as stream:
        await stream.send_all(request + BEHIND)
        with trio.fail_after(PATIENCE):
            answer = b"".join([piece async for piece in stream])
        assert re.search(rb"\r\nconnection: close\r\n", answer, re.IGNORECASE)
        assert all(visit.path == "/measure" for visit in server.app.visits)
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+)", answer)]


@pytest.mark.parametrize("request_bytes", CLOSED.values(), ids=CLOSED.keys())
async def test_behind_a_request_whose_end_is_doubtful_nothing_is_read(request_bytes: bytes) -> None:
    assert await statuses(request_bytes) == [200]


@pytest.mark.parametrize(("status", "request_bytes"), REFUSED.values(), ids=REFUSED.keys())
async def test_what_is_doubtless_wrong_is_refused_and_nothing_behind_it_is_read(
    status: int, request_bytes: bytes
) -> None:
    assert await statuses(request_bytes) == [status]


@pytest.mark.parametrize("request_bytes", KEPT.values(), ids=KEPT.keys())
async def test_what_has_one_meaning_keeps_its_connection(request_bytes: bytes) -> None:
    async with serving() as server, await server.connect() as stream:
        await stream.send_all(request_bytes + get_request("/refuse"))
        assert [status for status, _ in await read_answers(stream, 2)] == [200, 404]


FIELDS = {
    "fewer bytes than were said": (b"content-length", b"5"),
    "more bytes than were said": (b"content-length", b"1"),
    "an encoding": (b"transfer-encoding", b"chunked"),
    "a line end in a value": (b"x", b"a\r\ncontent-length: 9"),
    "a NUL in a value": (b"x", b"a\0b"),
    "a name with a line end": (b"x\r\ny", b"a"),
    "a name in capitals": (b"Content-Length", b"3"),
    "a header of a connection": (b"connection", b"close"),
    "an upgrade": (b"upgrade", b"h2c"),
    "another host than the authority": (b"host", b"elsewhere"),
}


@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS.keys())
async def test_a_header_of_http2_that_http1_would_understand_otherwise_is_refused(field: tuple[bytes, bytes]) -> None:
    headers = [(name, b"/measure" if name == b":path" else value) for name, value in PSEUDO]
    block = h2.connection.H2Connection().encoder.encode([*headers, field])
    async with serving() as server, await server.connect() as stream:
        await stream.send_all(PREFACE + frame(4, 0, 0, b"") + frame(1, 4, 1, block) + frame(0, 1, 1, b"abc"))
        with trio.fail_after(PATIENCE):
            answer = b"".join([piece async for piece in stream])
    assert frame(7, 0, 0, b"")[3:9] in answer, "GOAWAY"
