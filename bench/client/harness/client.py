"""The client: requests whose every token gets the time at which it came, and which can be hung up at any moment.

Hanging up is cancelling: leave the scope around `Client.send` and the connection is closed before the scope ends, while
the `Trace` keeps what had come.  Each request has a connection of its own, so that no server is kept from noticing.

    trace = Trace()
    with trio.move_on_after(0.5):
        await client.send(RequestSpec(prompt, max_tokens=100), trace)
"""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import httpx
import trio

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench.client.harness.prompts import Prompt

Json = dict[str, Any]

CONNECT_SECONDS = 10.0
# What comes within so many seconds came together: the tokens of one step are several events, but not several waits.
TOGETHER_SECONDS = 0.001
RECEIPTS = "/v1/receipts"


class RequestFailed(Exception):
    """The server answered with an error, or not in the protocol."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How requests are put to one server.

    Attributes:
        model: the name it knows its model by.
        endpoint: which of OpenAI's two.
        token_ids: the range from which prompts of token ids are drawn; None for a server that takes only text.
        fields: what each body holds besides.
        without_speculation: the fields that keep the server from speculating.
        headers: what each request's head holds besides.
    """

    model: str = "default"
    endpoint: Literal["completions", "chat"] = "completions"
    token_ids: range | None = range(300, 3000)
    fields: Mapping[str, Any] = field(default_factory=lambda: {"temperature": 0, "ignore_eos": True})
    without_speculation: Mapping[str, Any] = field(default_factory=lambda: {"speculate": False})
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return "/v1/completions" if self.endpoint == "completions" else "/v1/chat/completions"

    def body(self, spec: RequestSpec) -> Json:
        """The JSON that asks for it."""
        body: Json = {"model": self.model, "max_tokens": spec.max_tokens, "stream": spec.stream}
        if self.endpoint == "chat":
            body["messages"] = [{"role": "user", "content": spec.prompt}]
        else:
            body["prompt"] = spec.prompt
        if spec.stream:
            body["stream_options"] = {"include_usage": True}
        return body | dict(self.fields) | dict(spec.fields)


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """One request: `fields` are added to its body last."""

    prompt: Prompt
    max_tokens: int
    stream: bool = True
    fields: Mapping[str, Any] = field(default_factory=dict)


class Trace:
    """What came of one request, while it comes.  Times are `trio.current_time()`, in seconds.

    Attributes:
        arrivals: when tokens came, and how many; those that came together count as one arrival.  Servers that do not
            say how many are taken to send one token an event.
        text: of the first choice.
        usage, timings: as the server reported them at the end; empty before, and where it does not.
        ended: when the last byte had come; None for one that was hung up or failed.
        closed: when its connection was closed, as `trio.current_time()` and as seconds since the epoch.
    """

    def __init__(self, watch: Callable[[Trace], None] = lambda _: None) -> None:
        """`watch` is called with this trace after each arrival."""
        self._watch = watch
        self.started = 0.0
        self.request_id: str | None = None
        self.arrivals: list[tuple[float, int]] = []
        self.text = ""
        self.usage: Json = {}
        self.timings: Json = {}
        self.ended: float | None = None
        self.closed = (0.0, 0.0)
        self._changed = trio.Event()
        self._over = False
        self._opened: float | None = None  # when the first event about a choice came

    @property
    def tokens(self) -> int:
        """Tokens that came: those counted by the server, or else by us."""
        return int(self.usage.get("completion_tokens") or sum(count for _, count in self.arrivals))

    @property
    def prompt_tokens(self) -> int | None:
        """As counted by the server."""
        return self.usage.get("prompt_tokens")

    @property
    def cached_tokens(self) -> int | None:
        """How many of the prompt's tokens the server had already; None where it does not say."""
        details = self.usage.get("prompt_tokens_details") or {}
        found = details.get("cached_tokens", self.timings.get("cache_n"))
        return None if found is None else int(found)

    @property
    def ttft(self) -> float:
        """Seconds to the first token.  Raises RequestFailed if none came."""
        if not self.arrivals:
            raise RequestFailed("the response ended without a token")
        return self.arrivals[0][0] - self.started

    @property
    def decode_rate(self) -> float:
        """Tokens per second after those that came first.  Raises RequestFailed if they all came at once."""
        if len(self.arrivals) < 2:
            raise RequestFailed("the tokens came at once, or not at all: there is no rate")
        first, last = self.arrivals[0], self.arrivals[-1]
        return (self.tokens - first[1]) / (last[0] - first[0])

    def gaps(self, since: float = float("-inf"), until: float = float("inf")) -> list[float]:
        """Seconds between arrivals, of the gaps that overlap the time from `since` to `until`."""
        times = [at for at, _ in self.arrivals]
        return [after - before for before, after in pairwise(times) if before < until and after > since]

    async def wait_tokens(self, count: int) -> bool:
        """Wait until `count` tokens have come, or the request is over; whether they came."""
        while not self._over and sum(n for _, n in self.arrivals) < count:
            await self._changed.wait()
        return sum(n for _, n in self.arrivals) >= count

    def _take(self, tokens: int, text: str) -> None:
        now = trio.current_time()
        self._opened = self._opened or now
        self.text += text
        if not tokens:
            return
        if self.arrivals and now - self.arrivals[-1][0] < TOGETHER_SECONDS:
            at, count = self.arrivals[-1]
            self.arrivals[-1] = at, count + tokens
        else:
            self.arrivals.append((now, tokens))
        self._notify()
        self._watch(self)

    def _end(self) -> None:
        """The response is whole.  Tokens that had no text, half a character each, came when the response opened."""
        self.ended = trio.current_time()
        if not self.arrivals and self.tokens:
            self.arrivals.append((self._opened or self.ended, self.tokens))

    def _close(self, wall_clock: Callable[[], float]) -> None:
        self.closed = trio.current_time(), wall_clock()
        self._over = True
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


class Client:
    """Requests to one server.

    `doubts` counts, by what is doubtful, responses to another load than was asked for: a server that knows no
    `ignore_eos`, or that silently cuts prompts to its context, looks faster than it is.

    Args:
        url: of the server, without a path.
        timeout: seconds for which a response may be silent.
        transport: for tests.
        wall_clock: seconds since the epoch, to compare with the server's receipts.
    """

    def __init__(
        self,
        url: str,
        dialect: Dialect,
        *,
        timeout: float = 600.0,
        transport: httpx.AsyncBaseTransport | None = None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.url = url
        self.dialect = dialect
        self.doubts: Counter[str] = Counter()
        self._wall_clock = wall_clock
        self._http = httpx.AsyncClient(
            base_url=url,
            headers=dict(dialect.headers),
            transport=transport,
            timeout=httpx.Timeout(timeout, connect=CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            trust_env=False,  # no proxy between us and what is measured
        )

    async def aclose(self) -> None:
        """Close what is open."""
        await self._http.aclose()

    async def send(self, spec: RequestSpec, trace: Trace | None = None) -> Trace:
        """Send a request and read its response to the end; cancelling this hangs up.

        Raises:
            RequestFailed: the server refused it, or broke it off.
        """
        trace = trace or Trace()
        trace.started = trio.current_time()
        body = self.dialect.body(spec)
        try:
            async with self._http.stream("POST", self.dialect.path, json=body) as response:
                trace.request_id = response.headers.get("x-request-id")
                await _check_status(response)
                await (_read_stream(response, trace) if spec.stream else _read_whole(response, trace))
            trace._end()
            self._look_for_doubts(spec, trace)
        except (httpx.HTTPError, ValueError, KeyError) as error:
            raise RequestFailed(f"{type(error).__name__}: {error}") from error
        finally:
            trace._close(self._wall_clock)
        return trace

    async def post(self, content: bytes, path: str, headers: Mapping[str, str]) -> str:
        """Send any bytes, read the answer and throw it away; its status, or how the exchange was broken off."""
        try:
            sent = {"content-type": "application/json"} | dict(headers)
            async with self._http.stream("POST", path, content=content, headers=sent) as response:
                async for _ in response.aiter_bytes():
                    pass
            return str(response.status_code)
        except httpx.HTTPError as error:
            return f"broken off ({type(error).__name__})"

    def _look_for_doubts(self, spec: RequestSpec, trace: Trace) -> None:
        sent = len(spec.prompt.split() if isinstance(spec.prompt, str) else spec.prompt)  # a word is a token or more
        if (trace.prompt_tokens or sent) < sent:
            self.doubts["prompts counted shorter than they were sent: are they cut to the server's context?"] += 1
        if (trace.usage.get("completion_tokens") or spec.max_tokens) < spec.max_tokens:
            self.doubts["responses shorter than asked for: does the server know ignore_eos?"] += 1

    async def get(self, path: str, **params: str | int) -> Json | None:
        """The JSON at `path`; None where there is none."""
        try:
            response = await self._http.get(path, params=params)
            return response.json() if response.status_code == httpx.codes.OK else None
        except (httpx.HTTPError, ValueError):
            return None

    async def receipt(self, trace: Trace) -> Json | None:
        """What the server says its cancel of this request cost; None where servers give no receipts.

        A response that never began has no id: then it is the newest one since a second before the hang-up.
        """
        answer = await self.get(RECEIPTS, limit=50)
        for receipt in (answer or {}).get("data", ()):
            if trace.request_id == receipt["request_id"]:
                return dict(receipt)
            if trace.request_id is None and receipt["detected_at"] > trace.closed[1] - 1.0:
                return dict(receipt)
        return None


async def hang_up(
    client: Client, spec: RequestSpec, *, after: float = float("inf"), tokens: int | None = None
) -> Trace:
    """Send a request and hang up `after` seconds, or as soon as `tokens` tokens have come."""

    def leave(trace: Trace) -> None:
        if tokens is not None and trace.tokens >= tokens:
            scope.cancel()

    with trio.move_on_after(after) as scope:
        trace = Trace(leave)
        await client.send(spec, trace)
    return trace


async def _check_status(response: httpx.Response) -> None:
    if response.status_code != httpx.codes.OK:
        said = (await response.aread()).decode(errors="replace")
        raise RequestFailed(f"HTTP {response.status_code}: {said[:300]}")


async def _read_stream(response: httpx.Response, trace: Trace) -> None:
    """Read all events, also those behind an error: leaving httpx's nested generators early would abandon them."""
    broken: Json | None = None
    whole = False
    async for line in response.aiter_lines():
        kind, _, data = line.partition(":")
        if kind != "data":
            continue
        if data.strip() == "[DONE]":
            whole = True
            continue
        event = _event(data)
        broken = broken or event.get("error")
        whole = whole or any(choice.get("finish_reason") for choice in event.get("choices") or ())
        _take(event, trace)
    if broken:
        raise RequestFailed(f"the stream broke off: {broken}")
    if not whole:  # a server that died, and whose connection was closed in good order
        raise RequestFailed("the stream ended before the response did")


def _event(text: str | bytes) -> Json:
    """The object in it; whatever else is there counts as an error of the server's."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"error": f"{text[:300]!r} is not an object"}


def _take(event: Json, trace: Trace) -> None:
    trace.usage = event.get("usage") or trace.usage
    trace.timings = event.get("timings") or trace.timings
    for choice in event.get("choices") or ():
        trace._take(*_tokens_and_text(choice))


def _tokens_and_text(choice: Json) -> tuple[int, str]:
    """How many tokens a chunk holds, and their text.  Tokens that end within a character have none."""
    delta = choice.get("delta") or {}
    text = choice.get("text") or delta.get("content") or delta.get("reasoning_content") or delta.get("reasoning") or ""
    if "token_ids" in choice:
        return len(choice["token_ids"] or ()), text
    return int(bool(text)), text


async def _read_whole(response: httpx.Response, trace: Trace) -> None:
    answer = _event(await response.aread())
    if not answer.get("choices"):
        raise RequestFailed(f"no response: {answer.get('error')}")
    choice = answer["choices"][0]
    trace.usage, trace.timings = answer.get("usage") or {}, answer.get("timings") or {}
    text = choice.get("text") or (choice.get("message") or {}).get("content") or ""
    trace._take(int(trace.usage.get("completion_tokens", 1)), text)
