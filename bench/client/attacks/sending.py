"""The ways to send hostile requests.  Each returns an `Action`, which sends bytes that exist already."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

import trio

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bench.client.harness.client import Client

Json = dict[str, Any]

MIB = 2**20
RECEIVE_BUFFER = 4096
"""Bytes that the kernel keeps for a reader that pauses; it may take more."""


@dataclass(frozen=True, slots=True)
class AttackTarget:
    """The server that an attack is directed at, and the attack's size.

    Attributes:
        client: sends requests to the server.
        scale: a factor for all sizes.
        tokens: of long responses.
        pause: seconds for which a reader pauses, and for which connections are held.
        answers: counts the responses by status; filled while the attack goes on.
    """

    client: Client
    scale: float = 1.0
    tokens: int = 3900
    pause: float = 5.0
    answers: Counter[str] = field(default_factory=Counter)

    def size(self, whole: float) -> int:
        """Return a size at this scale; at least one."""
        return max(1, round(whole * self.scale))

    def completion_body(self, **fields: object) -> bytes:
        """Return the body of a completion, which is short unless `fields` say otherwise."""
        plain: Json = {"model": self.client.dialect.model, "prompt": "import os", "max_tokens": 8}
        return json.dumps(plain | {"ignore_eos": True} | fields).encode()

    def chat_body(self, **fields: object) -> bytes:
        """Return the body of a chat, which is short unless `fields` say otherwise."""
        plain: Json = {"model": self.client.dialect.model, "messages": [{"role": "user", "content": "hi"}]}
        return json.dumps(plain | {"max_tokens": 8, "ignore_eos": True} | fields).encode()


Action: TypeAlias = Callable[[], Awaitable[None]]
"""An attack that is ready: a function that is called once, beside a neighbour."""

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"


# --- ways to send ---------------------------------------------------------------------------------------------------


def post(
    target: AttackTarget, content: bytes, path: str = COMPLETIONS, headers: Mapping[str, str] | None = None
) -> Action:
    """Return an action that sends one request, and reads and drops its response."""
    return partial(_post, target, content, path, headers or {})


async def _post(target: AttackTarget, content: bytes, path: str, headers: Mapping[str, str]) -> None:
    target.answers[await target.client.post(content, path, headers)] += 1


def one_by_one(actions: Iterable[Action]) -> Action:
    """Return an action that carries out others one after the other."""
    listed = list(actions)

    async def act() -> None:
        for action in listed:
            await action()

    return act


def concurrently(actions: Iterable[Action]) -> Action:
    """Return an action that carries out others at the same time."""
    listed = list(actions)

    async def act() -> None:
        async with trio.open_nursery() as nursery:
            for action in listed:
                nursery.start_soon(action)

    return act


def raw(target: AttackTarget, content: bytes, *, pause: float, reads: bool) -> Action:
    """Return an action that sends bytes over a new connection, pauses, then reads to the end or leaves."""

    async def act() -> None:
        url = urlsplit(target.client.url)
        try:
            stream = await trio.open_tcp_stream(url.hostname or "", url.port or 80)
        except OSError:
            target.answers["refused"] += 1
            return
        async with stream:
            stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, RECEIVE_BUFFER)
            status = "no answer"
            try:
                await stream.send_all(content)
                await trio.sleep(pause)
                if reads:
                    status = await _read_status(stream)
            except trio.BrokenResourceError:
                status = "broken off"
            target.answers[status] += 1

    return act


async def _read_status(stream: trio.SocketStream) -> str:
    """Read to the end, and return the status in the first line."""
    first = b""
    while data := await stream.receive_some(MIB):
        first = first or data
    return first.split(b" ", 2)[1].decode(errors="replace") if first.startswith(b"HTTP/1.1 ") else "broken off"


def message(target: AttackTarget, content: bytes, *, length: int | None = None) -> bytes:
    """Return a request as bytes.  Its body is incomplete if `length` is more than the content has."""
    lines = f"POST {COMPLETIONS} HTTP/1.1\r\nHost: {urlsplit(target.client.url).netloc}\r\nConnection: close\r\n"
    fields = f"Content-Type: application/json\r\nContent-Length: {length or len(content)}\r\n\r\n"
    return (lines + fields).encode() + content
