"""Reads what a server tells of itself while it happens."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager

from tests.live.server import PATIENCE, Json, Server


@contextmanager
def asked(server: Server, method: str, path: str, body: Json | None = None) -> Iterator[http.client.HTTPResponse]:
    """A response that is not read yet; leaving hangs up."""
    with closing(http.client.HTTPConnection(*server.address, timeout=PATIENCE)) as connection:
        sent = None if body is None else json.dumps(body)
        connection.request(method, path, sent, {"content-type": "application/json"} if sent else {})
        with closing(connection.getresponse()) as response:
            yield response


def frames(feed: http.client.HTTPResponse) -> Iterator[tuple[str, Json]]:
    """The stream's events, by name."""
    kind = ""
    for line in feed:
        if line.startswith(b"event: "):
            kind = line[7:].decode().strip()
        elif line.startswith(b"data: "):
            yield kind, json.loads(line[6:])
