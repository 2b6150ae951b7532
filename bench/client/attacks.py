"""Requests that try to harm the others: each is made beforehand, as bytes, and then carried out beside a neighbour.

An attack ends by itself, or when its scope is cancelled; either way it has counted what the server answered: statuses,
`broken off`, `refused` for a connection that was not accepted.  Sizes are those of a scale of 1, at which no body is
longer than 16 MiB.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

import httpx
import trio

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bench.client.load import Client

Json = dict[str, Any]

MIB = 2**20
BODY = int(15.5 * MIB)  # bytes of the largest body
MIN_PAUSE_BUFFER = 4096  # bytes that the kernel keeps for a reader that pauses


@dataclass(frozen=True, slots=True)
class Aim:
    """What an attack is directed at.

    Attributes:
        scale: of its sizes.
        tokens: of its long answers.
        pause: seconds for which a reader pauses, and for which connections are held.
        answers: what came, by status; filled while the attack goes on.
    """

    client: Client
    scale: float = 1.0
    tokens: int = 3900
    pause: float = 5.0
    answers: Counter[str] = field(default_factory=Counter)

    def size(self, whole: float) -> int:
        """So many, at this scale; at least one."""
        return max(1, round(whole * self.scale))

    def text(self, **fields: object) -> bytes:
        """The body of a completion, short unless `fields` say otherwise."""
        plain: Json = {"model": self.client.dialect.model, "prompt": "import os", "max_tokens": 8}
        return json.dumps(plain | {"ignore_eos": True} | fields).encode()

    def chat(self, **fields: object) -> bytes:
        """The same, of a chat."""
        plain: Json = {"model": self.client.dialect.model, "messages": [{"role": "user", "content": "hi"}]}
        return json.dumps(plain | {"max_tokens": 8, "ignore_eos": True} | fields).encode()


Act: TypeAlias = Callable[[], Awaitable[None]]
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"


# --- ways to send ---------------------------------------------------------------------------------------------------


def post(aim: Aim, content: bytes, path: str = COMPLETIONS, headers: Mapping[str, str] | None = None) -> Act:
    """One request, whose answer is read and thrown away."""
    return partial(_post, aim, content, path, headers or {})


async def _post(aim: Aim, content: bytes, path: str, headers: Mapping[str, str]) -> None:
    aim.answers[await aim.client.post(content, path, headers)] += 1


def in_turn(acts: Iterable[Act]) -> Act:
    """One after the other."""
    listed = list(acts)

    async def act() -> None:
        for one in listed:
            await one()

    return act


def at_once(acts: Iterable[Act]) -> Act:
    """All at the same time."""
    listed = list(acts)

    async def act() -> None:
        async with trio.open_nursery() as nursery:
            for one in listed:
                nursery.start_soon(one)

    return act


def raw(aim: Aim, head_and_body: bytes, *, pause: float, reads: bool) -> Act:
    """Bytes over a socket of one's own: send, pause without reading, then read to the end, or leave."""

    async def act() -> None:
        url = urlsplit(aim.client.url)
        try:
            stream = await trio.open_tcp_stream(url.hostname or "", url.port or 80)
        except OSError:
            aim.answers["refused"] += 1
            return
        async with stream:
            stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, MIN_PAUSE_BUFFER)
            status = "no answer"
            try:
                await stream.send_all(head_and_body)
                await trio.sleep(pause)
                if reads:
                    status = await _read_status(stream)
            except trio.BrokenResourceError:
                status = "broken off"
            aim.answers[status] += 1

    return act


async def _read_status(stream: trio.SocketStream) -> str:
    """Read to the end; the status in the first line."""
    first = b""
    while data := await stream.receive_some(MIB):
        first = first or data
    return first.split(b" ", 2)[1].decode(errors="replace") if first.startswith(b"HTTP/1.1 ") else "broken off"


def head(content_length: int, path: str = COMPLETIONS) -> bytes:
    """A request's head."""
    lines = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
    return f"{lines}Content-Length: {content_length}\r\n\r\n".encode()


# --- attacks --------------------------------------------------------------------------------------------------------


def ordinary(aim: Aim) -> Act:
    """Not an attack: decent requests with long prompts and several choices, one after the other."""
    prompts = [[300 + (number * 7 + place) % 2000 for place in range(aim.tokens // 2)] for number in range(3)]
    return in_turn(post(aim, aim.text(prompt=prompt, n=2, max_tokens=32, stream=True)) for prompt in prompts)


def long_name(aim: Aim) -> Act:
    """A name of 2 MiB, in each of many chunks, and a reader that pauses."""
    content = aim.text(model="m" * aim.size(2 * MIB), stream=True, max_tokens=min(aim.tokens, 2000))
    return raw(aim, head(len(content)) + content, pause=aim.pause, reads=True)


def stop_string(aim: Aim) -> Act:
    """A stop string of 2 MiB, and sixteen choices."""
    return post(aim, aim.text(stop="s" * aim.size(2 * MIB), n=16))


def stop_strings(aim: Aim) -> Act:
    """Very many stop strings."""
    return post(aim, aim.text(stop=["st"] * aim.size(BODY / 6)))


def text_of_words(aim: Aim) -> Act:
    """Texts of 1 and 6 MiB."""
    sizes = [aim.size(MIB), aim.size(6 * MIB)]
    return in_turn(post(aim, aim.text(prompt="import os, sys " * (size // 15 + 1))) for size in sizes)


def one_word(aim: Aim) -> Act:
    """One word of 15.5 MiB."""
    return post(aim, aim.text(prompt="a" * aim.size(BODY)))


def one_message(aim: Aim) -> Act:
    """One message of 6 MiB."""
    return post(aim, aim.chat(messages=[{"role": "user", "content": "word " * aim.size(6 * MIB / 5)}]), CHAT)


def many_messages(aim: Aim) -> Act:
    """Hundreds of thousands of messages."""
    message = {"role": "user", "content": "a"}
    return post(aim, aim.chat(messages=[message] * aim.size(BODY / 34)), CHAT)


def many_parts(aim: Aim) -> Act:
    """A message in hundreds of thousands of parts."""
    parts = [{"type": "text", "text": "a"}] * aim.size(BODY / 32)
    return post(aim, aim.chat(messages=[{"role": "user", "content": parts}]), CHAT)


def many_prompts(aim: Aim) -> Act:
    """Millions of prompts of one letter."""
    return post(aim, b'{"max_tokens":1,"prompt":[' + b",".join([b'"a"'] * aim.size(BODY / 4)) + b"]}")


def many_ids(aim: Aim) -> Act:
    """Millions of token ids."""
    return post(aim, b'{"max_tokens":1,"prompt":[' + b",".join([b"300"] * aim.size(BODY / 4)) + b"]}")


def large_answer(aim: Aim) -> Act:
    """Four choices with 20 log-probabilities for each token, as one answer."""
    return post(aim, aim.text(n=4, max_tokens=aim.size(aim.tokens), logprobs=20))


def paused_reader(aim: Aim) -> Act:
    """The same as a stream, which is not read for a while."""
    content = aim.text(n=4, max_tokens=aim.size(aim.tokens), logprobs=20, stream=True)
    return raw(aim, head(len(content)) + content, pause=2 * aim.pause, reads=True)


def many_bodies(aim: Aim) -> Act:
    """60 connections with bodies of 15.5 MiB, of which the last byte never comes."""
    body = b'{"prompt":"' + b"a" * aim.size(BODY)
    message = head(len(body) + 2) + body
    return at_once(raw(aim, message, pause=aim.pause, reads=False) for _ in range(60))


def many_connections(aim: Aim) -> Act:
    """400 connections that send the beginning of a request."""
    return at_once(raw(aim, b"POST /v1/comp", pause=aim.pause, reads=False) for _ in range(aim.size(400)))


def many_streams(aim: Aim) -> Act:
    """1100 requests on one HTTP/2 connection."""
    content, times = aim.text(max_tokens=1), aim.size(1100)

    async def act() -> None:
        if find_spec("h2") is None:
            aim.answers["not tried: httpx has no HTTP/2 here"] += 1
            return
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1)
        http = httpx.AsyncClient(http1=False, http2=True, base_url=aim.client.url, limits=limits, trust_env=False)
        async with http:
            for _ in range(times):
                try:
                    answer = await http.post(COMPLETIONS, content=content, headers={"content-type": "application/json"})
                    aim.answers[str(answer.status_code)] += 1
                except httpx.HTTPError:
                    aim.answers["broken off"] += 1
                    return

    return act


def deep_nesting(aim: Aim) -> Act:
    """Arrays in arrays, millions deep; in a field of the schema, and aside."""
    depth = aim.size(BODY / 2.1)
    bodies = [b'{"%s":' % name + b"[" * depth + b"]" * depth + b',"max_tokens":1}' for name in (b"prompt", b"aside")]
    return in_turn(post(aim, body) for body in bodies)


def unknown_fields(aim: Aim) -> Act:
    """A million fields that no API has."""
    return post(aim, aim.text(**{f"f{number}": 0 for number in range(aim.size(BODY / 13))}))


def biases(aim: Aim) -> Act:
    """A million entries of `logit_bias`."""
    return post(aim, aim.text(logit_bias={str(number): 1 for number in range(aim.size(BODY / 13))}))


def template_variables(aim: Aim) -> Act:
    """Template variables of 15 MiB."""
    return post(aim, aim.chat(chat_template_kwargs={f"v{n}": "x" * 90 for n in range(aim.size(BODY / 105))}), CHAT)


def other_site(aim: Aim) -> Act:
    """What a web page of another site can send, and a name that was bound to this machine."""
    content = aim.text(max_tokens=1)
    heads: list[Mapping[str, str]] = [
        {"content-type": "text/plain", "origin": "http://elsewhere.example"},
        {"host": "elsewhere.example", "content-type": "application/json"},
    ]
    return in_turn(post(aim, content, COMPLETIONS, headers) for headers in heads)


ATTACKS: dict[str, Callable[[Aim], Act]] = {
    "a long name": long_name,
    "a long stop string": stop_string,
    "many stop strings": stop_strings,
    "long texts": text_of_words,
    "one long word": one_word,
    "one long message": one_message,
    "many messages": many_messages,
    "many parts": many_parts,
    "many prompts": many_prompts,
    "many token ids": many_ids,
    "a large answer": large_answer,
    "a reader that pauses": paused_reader,
    "60 large bodies": many_bodies,
    "400 connections": many_connections,
    "1100 HTTP/2 requests": many_streams,
    "deep nesting": deep_nesting,
    "unknown fields": unknown_fields,
    "biases": biases,
    "template variables": template_variables,
    "another site": other_site,
}
