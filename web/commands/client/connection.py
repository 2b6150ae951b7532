"""A client of cede's HTTP API.  To leave `chat` early is to hang up: the connection closes, and the server notices."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import httpx

from runtime.errors import CedeError
from web.commands.client.answer import Answer, EventParser, error_message

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from web.commands.client.answer import Delta, Json

CHAT = "/v1/chat/completions"
CONNECT_SECONDS = 5.0
SILENT_SECONDS = 60.0  # a stream says every ten seconds that it is alive
RECEIPT_SECONDS = 5  # within which a hang-up has its receipt, unless a step takes that long
_LOOPBACK = ("127.", "localhost", "::1")


class ConnectionFailed(CedeError):
    """The server cannot be talked to; the message says what to do."""


class NoServer(ConnectionFailed):
    """Nothing answers there."""

    def __init__(self, url: str) -> None:
        super().__init__(
            f"no server answers at {url}; start one with `cede serve`, or name another with --url "
            "(`run` and `chat` can do without: --model)"
        )


class Refused(CedeError):
    """The server has answered with an error.

    Attributes:
        status: of HTTP.
    """

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(_refusal(status, body))
        self.status = status


class AnswerBroken(CedeError):
    """An answer that had begun has ended with an error."""


class Connection:
    """Talks to one server.  Made by `open_connection`.

    Args:
        http: open; it knows the address and the key.
        url: as it was given.
    """

    def __init__(self, http: httpx.AsyncClient, url: str) -> None:
        self._http = http
        self.url = url

    async def get(self, path: str, **query: str | int) -> Any:  # noqa: ANN401
        """The JSON at a path.  Raises NoServer, ConnectionFailed or Refused."""
        with _told(self.url):
            response = await self._http.get(path, params=query)
        return _json_of(response)

    async def model(self) -> Json:
        """The only model, as `/v1/models` has it; a cluster's front door names its context in its own way.

        Raises:
            NoServer, ConnectionFailed, Refused: as `get`.
            KeyError, TypeError, ValueError: what answers is not cede, or has several.
        """
        (model,) = (await self.get("/v1/models"))["data"]
        alone: Json = {"max_model_len": model.get("context_window")} | model
        return alone

    async def cancel(self, request_id: str) -> bool:
        """Hang a request up for whoever asked it; False where it lives no more.

        Raises:
            NoServer, ConnectionFailed, Refused: as `get`.
        """
        with _told(self.url):
            response = await self._http.delete(f"/v1/requests/{request_id}")
        if response.status_code == httpx.codes.NOT_FOUND:
            return False
        _json_of(response)
        return True

    async def receipt(self, request_id: str) -> Json | None:
        """The receipt of a request that was hung up, once it has ended; None where it has ended well.

        Raises:
            NoServer, ConnectionFailed, Refused: as `get`.
        """
        found = await self.get("/v1/receipts", request_id=request_id, wait=RECEIPT_SECONDS, limit=1)
        return next(iter(found["data"]), None)

    async def chat(self, body: Json, answer: Answer, show: Callable[[Delta], Awaitable[None]]) -> None:
        """Ask, and read the answer to its end; to be cancelled is to hang up.

        Args:
            body: of a chat completion.
            answer: is added to.
            show: is given each piece as it comes.

        Raises:
            NoServer, ConnectionFailed, Refused: as `get`.
            AnswerBroken: the answer has begun, and ended with an error.
        """
        timeout = httpx.Timeout(SILENT_SECONDS if body.get("stream") else None, connect=CONNECT_SECONDS)
        with _told(self.url):
            async with self._http.stream("POST", CHAT, json=body, timeout=timeout) as response:
                answer.id = response.headers.get("x-request-id", "")
                if response.is_error or not body.get("stream"):
                    await response.aread()
                    if delta := answer.take(_json_of(response)):
                        await show(delta)
                else:
                    await self._read(response, answer, show)
        if answer.error is not None:
            raise AnswerBroken(answer.error)

    async def _read(self, response: httpx.Response, answer: Answer, show: Callable[[Delta], Awaitable[None]]) -> None:
        events = EventParser()
        async for piece in response.aiter_bytes():
            for event in events.feed(piece):
                if delta := answer.take(event):
                    await show(delta)
        if not events.done and answer.error is None:
            raise AnswerBroken(f"{self.url} ended the answer before it was whole")


@asynccontextmanager
async def open_connection(url: str, key: str | None) -> AsyncIterator[Connection]:
    """A client of the server at `url`, which sends `key` where there is one.

    Proxies of the environment are not asked for what is on this machine.

    Raises:
        ConnectionFailed: it is no address of a server.
    """
    try:
        address = httpx.URL(url)
        if address.scheme not in ("http", "https") or not address.host:
            raise httpx.InvalidURL("it is no address of a server")
        async with httpx.AsyncClient(
            base_url=url,
            headers={} if key is None else {"authorization": f"Bearer {key}"},
            timeout=httpx.Timeout(SILENT_SECONDS, connect=CONNECT_SECONDS),
            trust_env=not address.host.startswith(_LOOPBACK),
            follow_redirects=True,  # of a cluster's front door to its control address; a key is not sent there
        ) as http:
            yield Connection(http, url)
    except httpx.InvalidURL as error:
        raise ConnectionFailed(f"{url}: {error}; one is written as http://127.0.0.1:8000") from None


@contextmanager
def _told(url: str) -> Iterator[None]:
    """Say in plain words what keeps from talking to the server."""
    try:
        yield
    except httpx.ConnectError as error:
        if "certificate" in str(error).lower():
            raise ConnectionFailed(f"{url}: {error}; SSL_CERT_FILE names a certificate to trust") from None
        raise NoServer(url) from None
    except httpx.TimeoutException:
        raise ConnectionFailed(f"{url} does not answer; its log may say why") from None
    except httpx.TransportError as error:
        raise ConnectionFailed(f"{url} has gone in the middle of an answer ({error or type(error).__name__})") from None


def _json_of(response: httpx.Response) -> Any:  # noqa: ANN401
    """Return what was answered.  Raises Refused, or ConnectionFailed if it is not JSON."""
    if response.is_error:
        raise Refused(response.status_code, response.content)
    try:
        return response.json()
    except ValueError:
        raise ConnectionFailed(f"{response.url} is answered by something that is not cede") from None


def _refusal(status: int, body: bytes) -> str:
    """Return what an error says, and what to do about it where that is not in it."""
    try:
        said = error_message(json.loads(body))
    except (ValueError, AttributeError):
        said = f"the server answered with status {status}"
    if status == httpx.codes.UNAUTHORIZED:
        return f"{said}  Set CEDE_API_KEY, or say --api-key-file."
    return said
