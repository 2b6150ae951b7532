"""A client that costs its machine little, in a process of its own: it does what lines of standard input say.

    python -m bench.engine.event_loop.client PORT KEY

A line names a case of `CASES` and a number of requests.  Once they are done there is a line in return.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

STREAMED = 33
"""Tokens of a stream that is read to its end."""

PACE = 0.02
"""Seconds from one hang-up to the next request: by then the server is done with it."""

END_OF_HEADERS = b"\r\n\r\n"
END_OF_BODY = b"0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Case:
    """Case of what is asked again and again.

    Attributes:
        about: what it is, for people.
        tokens: of an answer at most.
        keeps: whether all requests go through one connection.
        hangs_up: whether the connection is closed once the response's headers are there: the request has its slot then.
    """

    about: str
    tokens: int
    keeps: bool = False
    hangs_up: bool = False


CASES = {
    "kept": Case("one token, on a connection that is kept", 1, keeps=True),
    "new": Case("one token, on a connection of its own", 1),
    "stream": Case(f"{STREAMED} tokens, on a connection that is kept", STREAMED, keeps=True),
    "hang-up": Case("hung up behind the response's headers", 1000, hangs_up=True),
}


def request_bytes(number: int, tokens: int, key: str) -> bytes:
    """Return a chat's request, whose prompt has some twenty tokens and is another one with each number."""
    body = {
        "model": "cede",
        "messages": [{"role": "user", "content": f"{number}: name a few colours, please"}],
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
    }
    content = json.dumps(body).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: */*\r\naccept-encoding: gzip, deflate\r\n"
        f"user-agent: bench\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def read_to(connection: socket.socket, end: bytes) -> bytes:
    """Read until `end` has come; raises ConnectionError where the server closes before.

    What comes behind the headers ends with `END_OF_BODY`, and no text of an answer can hold its line ends.
    """
    received = b""
    while end not in received:
        if not (more := connection.recv(2**16)):
            raise ConnectionError(f"the server closed the connection: {received!r}")
        received += more
    if not received.startswith(b"HTTP/1.1 200"):
        raise ConnectionError(f"the server refused: {received!r}")
    return received


def run(case: Case, requests: int, port: int, key: str, numbers: Iterator[int]) -> None:
    """Send so many requests, one after the other."""

    def connect() -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", port), timeout=60)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    if case.keeps:
        with closing(connect()) as connection:
            for _ in range(requests):
                connection.sendall(request_bytes(next(numbers), case.tokens, key))
                read_to(connection, END_OF_BODY)
        return
    for _ in range(requests):
        with closing(connect()) as connection:
            connection.sendall(request_bytes(next(numbers), case.tokens, key))
            read_to(connection, END_OF_HEADERS if case.hangs_up else END_OF_BODY)
        if case.hangs_up:
            time.sleep(PACE)


def main() -> None:
    """Do what the lines say, to the end of standard input."""
    _, port, key = sys.argv
    numbers = count()
    for line in sys.stdin:
        name, requests = line.split()
        run(CASES[name], int(requests), int(port), key, numbers)
        sys.stdout.write("done\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
