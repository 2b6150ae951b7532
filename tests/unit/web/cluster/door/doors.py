"""A door on loopback, and what stands behind it in Dynamo's place."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import h11
import httpx
import trio
from hypercorn.app_wrappers import ASGIWrapper

from tests.live.server import PATIENCE
from web.cluster.door.passage import ControlPlace, Passage
from web.http.browser_policy import BrowserPolicy
from web.http.listeners import hypercorn_config
from web.http.transport.serve import serve_connections
from web.process.limits import Limits

LOOPBACK = "127.0.0.1"
ANSWER = b"HTTP/1.1 200 OK\r\nx-of-dynamo: yes\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi"


class Behind:
    """Notes what it is asked, and answers.

    Attributes:
        asked: the requests, and their bodies.
        answers: what it sends on each of its connections; None for nothing, ever.
        came: a request has come.
        left: whoever asked has closed the connection.
    """

    def __init__(self, *answers: bytes | None) -> None:
        self.asked: list[tuple[h11.Request, bytes]] = []
        self.answers = list(answers)
        self.came, self.left = trio.Event(), trio.Event()

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection."""
        protocol, body = h11.Connection(h11.SERVER), b""
        request: h11.Request | None = None
        while not isinstance(event := protocol.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                protocol.receive_data(await stream.receive_some())
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += event.data
        assert request is not None
        self.asked.append((request, body))
        self.came.set()
        if (answer := self.answers.pop(0)) is not None:
            await stream.send_all(answer)
            return
        while await stream.receive_some():
            pass
        self.left.set()


@asynccontextmanager
async def open_door(
    behind: Behind,
    policy: BrowserPolicy = BrowserPolicy(),  # noqa: B008  # frozen
    control: ControlPlace | None = None,
) -> AsyncIterator[tuple[Passage, int]]:
    """A passage, and the port at which it is."""
    limits, stop = Limits(body_bytes=1000, connections=4), trio.Event()
    (inner,) = await trio.open_tcp_listeners(0, host=LOOPBACK)
    listeners = await trio.open_tcp_listeners(0, host=LOOPBACK)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, behind.serve, [inner])
        passage = Passage((LOOPBACK, inner.socket.getsockname()[1]), limits, policy, control)
        serve = partial(serve_connections, limits=limits, stall_timeout=30.0, linger=1.0, stop=stop)
        await nursery.start(serve, ASGIWrapper(passage.app), hypercorn_config(), listeners)
        yield passage, listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_client(port: int) -> AsyncIterator[httpx.AsyncClient]:
    """A client of it, which keeps its connection."""
    async with httpx.AsyncClient(base_url=f"http://{LOOPBACK}:{port}", trust_env=False, timeout=PATIENCE) as client:
        yield client
