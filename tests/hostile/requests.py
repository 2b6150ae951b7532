"""Requests that are no HTTP, or HTTP that no client sends, each fixed by one integer.

They go to every route that the application has: with bodies that are cut into bad chunks or are of another length than
announced, with headers that are too many, too long or contradict each other, with targets and queries of any kind.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.fakes.operations import OPERATIONS
from tests.hostile.bodies import filled
from tests.hostile.frames import PREFACE, draw_frames
from tests.hostile.values import STRINGS
from web.openapi.operations import Operation

METHODS = ("GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "get", "PRI", "X" * 300, "G\u00c9T")
VERSIONS = ("HTTP/1.1", "HTTP/1.0", "HTTP/0.9", "HTTP/9.9", "HTTP/1.1 ", "http/1.1", "")
TARGETS = (
    "/v1/responses/%2e%2e%2fhealth",
    "/v1/models/" + "%f0%9f%98%80" * 500,
    "/%5c%5c/%09",
    "*",
    "//",
    "/..",
    "/%00",
    "/%ff%fe",
    "/v1/%2e%2e/",
    "http://[x/",
    "http://elsewhere/health",
    "/" * 3000,
    "\0",
)
QUERIES = (
    "?",
    "?limit",
    "?limit=-1",
    "?limit=1&limit=2",
    "?%",
    "?%zz=%u1234",
    f"?{'a=1&' * 5000}",
    f"?limit={'9' * 9000}",
)
ARGUMENTS = (
    "",
    "-1",
    "1",
    "61",
    "9" * 9000,
    "%00",
    "%ff",
    "%",
    "a+b",
    "false",
    "%D9%A1",
    "1e3",
    "0x1",
    "=",
    "[]",
    "x" * 70_000,
)
HEADERS = (
    *("host: a\r\nhost: b", "host: ", "host: a b", "host: evil.example", f"x: {'y' * 70_000}", f"{'x' * 9000}: y"),
    *("\r\n".join(f"x-{number}: y" for number in range(2000)), " folded: y", "x : y", ": y", "x: \0", "x: \x7f\x01"),
    *("authorization: Bearer \xff", f"authorization: {'Basic ' * 9000}", "x-api-key: ", "origin: null", "origin: ///"),
    *("authorization: Bearer", "authorization: Bearer sk-1, Bearer sk-2", "authorization: \r\nauthorization: x"),
    *("origin: http://evil.example", "origin: http://localhost@evil.example", "origin: http://[::1", "origin: \xff"),
    *("sec-fetch-site: cross-site", "host: [::1]:99999999", "host: localhost:x", "host: \xff", "host: a,localhost"),
    *("expect: 100-continue", "expect: x", "upgrade: websocket\r\nconnection: upgrade", "connection: close, \x00"),
    *("cookie: a=b; =;;", "content-type: \xe9", "content-type: application/json;" + "a=b;" * 3000, "trailer: a"),
    *("accept-encoding: \u00e9", "transfer-encoding: chunked", "content-length: 7", "x: a\n b", "x: a\rb", "\0: x"),
    *(
        "accept: text/html",
        "accept: \xff;q=x",
        "if-none-match: \xff",
        "last-event-id: x",
        "if-none-match: " + '"a",' * 3000,
    ),
    *("range: bytes=0-", "if-none-match: *", "x-forwarded-for: ::", "anthropic-version: \x1f", "upgrade: h2c"),
)
NAMES = ("x", "x", "%00", "%ff", "..", "%2e%2e", "a%2fb", "resp_x", "x" * 5000, "%", "\u00e9")
LENGTHS = ("-1", "1e3", "0x10", "9" * 30, "", "5, 5", "5, 6", "\u0665")
CHUNKS = (
    *(b"zz\r\n", b"-5\r\nhello\r\n", b"5\r\nhel", b"5\r\nhelloworld\r\n", b"f" * 40 + b"\r\n", b"5;" + b"x" * 70_000),
    *(b"0\r\n" + b"t: v\r\n" * 3000 + b"\r\n", b"\r\n\r\n", b"5 \r\nhello\r\n0\r\n\r\n", b"1\r\n{\r\n" * 500),
)
OTHER_PROTOCOLS = (b"\0" * 3000, b"\r\n" * 3000, b"\x16\x03\x01\x02\x00\x01", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")


@dataclass(frozen=True, slots=True)
class HostileRequest:
    """Bytes of a connection.  What is no whole request is followed by the end of the client's side.

    Attributes:
        what: by which it can be drawn again: `python -m tests.live.hostile --replay 'request 17'`.
        raw: all that the client sends.
    """

    what: str
    raw: bytes

    @property
    def is_http2(self) -> bool:
        """Return whether the answer is HTTP/2."""
        return self.raw.startswith(PREFACE)

    def __str__(self) -> str:
        """Say how it begins."""
        return f"{self.what!r}, {len(self.raw)} bytes: {self.raw[:300]!r}"


def draw_request(seed: int) -> HostileRequest:
    """The request of that number; the same in every process."""
    dice = random.Random(f"hostile request/{seed}")
    operation = dice.choice(OPERATIONS)
    body = json.dumps(operation.example or {}).encode()
    path = filled(operation.path, dice.choice(NAMES))
    kinds: list[Callable[[], bytes]] = [
        lambda: _request(operation.method.upper(), path + _query(dice, operation), [], body),
        lambda: _request(dice.choice(METHODS), path, [], body),
        lambda: _request(operation.method.upper(), dice.choice(TARGETS), [], body),
        lambda: _request(operation.method.upper(), path, dice.sample(HEADERS, k=dice.choice([1, 1, 2, 5])), body),
        lambda: _request(operation.method.upper(), path, [], body, version=dice.choice(VERSIONS)),
        lambda: _head("POST", path, [f"content-length: {dice.choice(LENGTHS)}"]) + body,
        lambda: _head("POST", path, ["content-length: 5", "transfer-encoding: chunked"]) + body,
        lambda: _head("POST", path, [f"content-length: {len(body) + dice.choice([-1, 1, 10**6, 10**9])}"]) + body,
        lambda: _head("POST", path, ["transfer-encoding: chunked"]) + dice.choice(CHUNKS),
        lambda: _head("POST", path, [f"transfer-encoding: {dice.choice(['gzip', 'gzip, chunked', 'x', ''])}"]) + body,
        lambda: _request("POST", path, [f"content-encoding: {dice.choice(['gzip', 'br', 'x'])}"], gzip.compress(body)),
        lambda: _torn(dice, _request(operation.method.upper(), path, [], body)),
        lambda: _request(operation.method.upper(), path, [], body) * dice.choice([2, 30]),
        lambda: _request("POST", path, [], dice.choice(STRINGS).encode("utf-8", "surrogatepass") * 50),
        lambda: _head("POST", path, ["content-length: 5", f"content-length: {len(body)}"]) + body,
        lambda: _request(operation.method.upper(), path, [], body)[: dice.choice([1, 30, 120])],
        lambda: dice.choice(OTHER_PROTOCOLS),
        lambda: draw_frames(dice, operation, path.encode("ascii", "replace").decode()),
        lambda: draw_frames(dice, operation, path.encode("ascii", "replace").decode()),
    ]
    return HostileRequest(f"request {seed}", dice.choice(kinds)())


def _query(dice: Random, operation: Operation) -> str:
    """Return a query string, of the operation's own parameters where it has some."""
    names = [parameter.name for parameter in operation.parameters if parameter.place == "query"]
    if not names or dice.random() < 0.5:
        return dice.choice(QUERIES)
    return "?" + "&".join(f"{name}={dice.choice(ARGUMENTS)}" for name in dice.choices(names, k=dice.choice([1, 2, 4])))


def _head(method: str, target: str, headers: list[str], version: str = "HTTP/1.1") -> bytes:
    lines = [
        f"{method} {target} {version}",
        "host: localhost",
        "connection: close",
        "content-type: application/json",
        *headers,
    ]
    return "\r\n".join([*lines, "\r\n"]).encode("latin-1", "replace")


def _request(method: str, target: str, headers: list[str], body: bytes, version: str = "HTTP/1.1") -> bytes:
    return _head(method, target, [f"content-length: {len(body)}", *headers], version) + body


def _torn(dice: Random, raw: bytes) -> bytes:
    """The same, with a few bytes lost, doubled or changed."""
    for _ in range(dice.choice([1, 3, 10])):
        place = dice.randrange(len(raw))
        piece = dice.choice([b"", raw[place : place + 9] * 2, bytes([dice.randrange(256)])])
        raw = raw[:place] + piece + raw[place + dice.choice([0, 1, 9]) :]
    return raw
