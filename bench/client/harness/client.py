"""An HTTP client that times every token, and can hang up at any moment.

To hang up, cancel: leave the scope around `Client.send`.  The connection is closed before the scope ends, and the
trace keeps what had come.  Each request has a connection of its own, so that the server can notice the hang-up.

    trace = Trace()
    with trio.move_on_after(0.5):
        await client.send(RequestSpec(prompt, max_tokens=100), trace)
"""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import httpx
import trio

from bench.client.harness.trace import RequestFailed, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench.client.harness.dialect import Dialect, RequestSpec

Json = dict[str, Any]

CONNECT_SECONDS = 10.0
RECEIPTS_PATH = "/v1/receipts"


class Client:
    """Sends requests to one server.

    Args:
        url: of the server, without a path.
        dialect: how requests are put to it.
        timeout: seconds for which a response may be silent.
        transport: for tests.
        wall_clock: seconds since the epoch, to compare with the server's receipts.

    Attributes:
        url, dialect: as given.
        doubts: counts responses to another load than was asked for, by what is doubtful.  A server that knows no
            `ignore_eos`, or silently cuts prompts to its context, looks faster than it is.
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
            trust_env=False,  # no proxy between the client and the server
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def send(self, spec: RequestSpec, trace: Trace | None = None) -> Trace:
        """Send a request and read its response to the end.  A cancellation hangs up.

        Args:
            spec: the request.
            trace: filled while the response comes; a new one by default.

        Raises:
            RequestFailed: the server refused the request, or broke off the response.
        """
        trace = trace or Trace()
        trace.started = trio.current_time()
        body = self.dialect.body(spec)
        try:
            async with self._http.stream("POST", self.dialect.path, json=body) as response:
                trace.request_id = response.headers.get("x-request-id")
                await _check_status(response)
                await (_read_stream(response, trace) if spec.stream else _read_object(response, trace))
            trace.end()
            self._count_doubts(spec, trace)
        except (httpx.HTTPError, ValueError, KeyError) as error:
            raise RequestFailed(f"{type(error).__name__}: {error}") from error
        finally:
            trace.close(self._wall_clock)
        return trace

    async def post(self, content: bytes, path: str, headers: Mapping[str, str]) -> str:
        """Send any bytes, read and drop the response, and return its status, or how the exchange was broken off."""
        try:
            all_headers = {"content-type": "application/json"} | dict(headers)
            async with self._http.stream("POST", path, content=content, headers=all_headers) as response:
                async for _ in response.aiter_bytes():
                    pass
            return str(response.status_code)
        except httpx.HTTPError as error:
            return f"broken off ({type(error).__name__})"

    def _count_doubts(self, spec: RequestSpec, trace: Trace) -> None:
        sent = len(spec.prompt.split() if isinstance(spec.prompt, str) else spec.prompt)  # a word is a token or more
        if (trace.prompt_tokens or sent) < sent:
            self.doubts["prompts counted shorter than they were sent: are they cut to the server's context?"] += 1
        if not spec.may_be_cut and (trace.usage.get("completion_tokens") or spec.max_tokens) < spec.max_tokens:
            self.doubts["responses shorter than asked for: does the server know ignore_eos?"] += 1

    async def get(self, path: str, **params: str | int) -> Json | None:
        """Return the JSON at `path`; None if there is none."""
        try:
            response = await self._http.get(path, params=params)
            return response.json() if response.status_code == httpx.codes.OK else None
        except (httpx.HTTPError, ValueError):
            return None

    async def receipt(self, trace: Trace) -> Json | None:
        """Return the server's receipt for the cancel of this request; None if the server gives no receipts.

        A response that never began has no id.  Then the newest receipt since a second before the hang-up is taken.
        """
        receipts = await self.get(RECEIPTS_PATH, limit=50)
        for receipt in (receipts or {}).get("data", ()):
            if trace.request_id == receipt["request_id"]:
                return dict(receipt)
            if trace.request_id is None and receipt["detected_at"] > trace.closed[1] - 1.0:
                return dict(receipt)
        return None


async def hang_up(
    client: Client, spec: RequestSpec, *, after: float = float("inf"), tokens: int | None = None
) -> Trace:
    """Send a request, hang up after `after` seconds or as soon as `tokens` tokens have come, and return its trace.

    Raises:
        RequestFailed: the server refused the request, or broke off the response.
    """

    def leave(trace: Trace) -> None:
        if tokens is not None and trace.tokens >= tokens:
            scope.cancel()

    with trio.move_on_after(after) as scope:
        trace = Trace(leave)
        await client.send(spec, trace)
    return trace


async def _check_status(response: httpx.Response) -> None:
    if response.status_code != httpx.codes.OK:
        text = (await response.aread()).decode(errors="replace")
        raise RequestFailed(f"HTTP {response.status_code}: {text[:300]}")


async def _read_stream(response: httpx.Response, trace: Trace) -> None:
    """Read all events, also those after an error: to leave httpx's nested generators early would abandon them."""
    error: Json | None = None
    complete = False
    async for line in response.aiter_lines():
        kind, _, data = line.partition(":")
        if kind != "data":
            continue
        if data.strip() == "[DONE]":
            complete = True
            continue
        event = _event(data)
        error = error or event.get("error")
        complete = complete or any(choice.get("finish_reason") for choice in event.get("choices") or ())
        _add_event(event, trace)
    if error:
        raise RequestFailed(f"the stream broke off: {error}")
    if not complete:  # the server died, and its connection was closed in good order
        raise RequestFailed("the stream ended before the response did")


def _event(text: str | bytes) -> Json:
    """Parse an object; anything else counts as an error of the server."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"error": f"{text[:300]!r} is not an object"}


def _add_event(event: Json, trace: Trace) -> None:
    trace.usage = event.get("usage") or trace.usage
    trace.timings = event.get("timings") or trace.timings
    for choice in event.get("choices") or ():
        trace.add(*_tokens_and_text(choice))


def _tokens_and_text(choice: Json) -> tuple[int, str]:
    """Return the number of tokens in a chunk, and their text.  Tokens that end within a character have none."""
    delta = choice.get("delta") or {}
    text = choice.get("text") or delta.get("content") or delta.get("reasoning_content") or delta.get("reasoning") or ""
    if "token_ids" in choice:
        return len(choice["token_ids"] or ()), text
    return int(bool(text)), text


async def _read_object(response: httpx.Response, trace: Trace) -> None:
    result = _event(await response.aread())
    if not result.get("choices"):
        raise RequestFailed(f"no response: {result.get('error')}")
    choice = result["choices"][0]
    trace.usage, trace.timings = result.get("usage") or {}, result.get("timings") or {}
    text = choice.get("text") or (choice.get("message") or {}).get("content") or ""
    trace.add(int(trace.usage.get("completion_tokens", 1)), text)
