"""One request at the front door, and all that came of it."""

from __future__ import annotations

import json
import time
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from tests.live.server import CHAT, Gone, Json
from tests.soak.clients import Address, Http1, open_http1


@dataclass(slots=True)
class Answer:
    """Parts of an answer that have come so far; times are `time.perf_counter`'s.

    Attributes:
        id: the request's, as the workers know it.
        status: of HTTP; 0 while there is none.
        texts: by choice.
        finished: why each choice ended.
        error: that was told, or how the connection ended if it ended early.
        arrivals: when each piece of text came.
        usage: tokens, where they were told.
        ended: when all of it was there.
    """

    id: str
    began: float = field(default_factory=time.perf_counter)
    status: int = 0
    texts: dict[int, str] = field(default_factory=lambda: defaultdict(str))
    finished: dict[int, str] = field(default_factory=dict)
    error: Json | None = None
    arrivals: list[float] = field(default_factory=list)
    usage: Json = field(default_factory=dict)
    ended: float = 0.0

    @property
    def said(self) -> tuple[dict[int, str], dict[int, str]]:
        """Return what has to be the same whenever the same is asked."""
        return dict(self.texts), self.finished

    @property
    def cached(self) -> int:
        """Tokens of the prompt that the worker had."""
        return int((self.usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0)

    def take(self, told: Json) -> None:
        """Take an event of a stream, or a whole answer."""
        if "choices" not in told:
            self.error = told.get("error") or told
            return
        self.usage = told.get("usage") or self.usage
        for choice in told["choices"]:
            index, part = choice["index"], choice.get("delta") or choice.get("message") or choice
            if text := part.get("content") or part.get("text"):
                self.texts[index] += text
                self.arrivals.append(time.perf_counter())
            if choice.get("finish_reason"):
                self.finished[index] = choice["finish_reason"]


class Asking:
    """A request that was sent; read as far as one likes."""

    def __init__(self, exchange: Http1, answer: Answer, *, streams: bool) -> None:
        self._exchange = exchange
        self._streams = streams
        self._rest = b""
        self.answer = answer

    async def read(self, pieces: int | None = None) -> Answer:
        """Read to the end, or until so many pieces of text have come."""
        answer = self.answer
        try:
            if not answer.status:
                answer.status, _ = await self._exchange.head()
            while pieces is None or len(answer.arrivals) < pieces:
                data = await self._exchange.receive()
                if not data:
                    break
                self._take(data)
            else:
                return answer
            if self._rest.strip():
                answer.take(json.loads(self._rest))
        except Gone:
            answer.error = {"message": "the connection ended early", "type": "gone", "code": 0}
        answer.ended = time.perf_counter()
        return answer

    def _take(self, data: bytes) -> None:
        self._rest += data
        if not self._streams or self.answer.status != 200:
            return
        *events, self._rest = self._rest.split(b"\n\n")
        for event in events:
            for line in event.splitlines():
                if line.startswith(b"data: {"):
                    self.answer.take(json.loads(line.removeprefix(b"data: ")))

    async def hang_up(self, *, rudely: bool) -> float:
        """Close the connection; returns when."""
        now = time.perf_counter()
        await self._exchange.leave(rudely=rudely)
        return now


@asynccontextmanager
async def asked(address: Address, body: Json, path: str = CHAT, *, session: str | None = None) -> AsyncIterator[Asking]:
    """Send a request; its connection is closed with the scope."""
    request_id = str(uuid.uuid4())
    headers = [("content-type", "application/json"), ("x-dynamo-request-id", request_id)]
    if session is not None:
        headers.append(("x-dynamo-session-id", session))
    async with open_http1(address) as exchange:
        answer = Answer(request_id)
        try:
            await exchange.ask("POST", path, json.dumps(body).encode(), more=headers)
        except Gone:
            answer.error = {"message": "the connection ended early", "type": "gone", "code": 0}
        yield Asking(exchange, answer, streams=bool(body.get("stream")))


async def ask(address: Address, body: Json, path: str = CHAT, *, session: str | None = None) -> Answer:
    """Ask, and read all of the answer."""
    try:
        async with asked(address, body, path, session=session) as asking:
            return await asking.read()
    except OSError as error:  # nobody listens
        now = time.perf_counter()
        await trio.sleep(0.1)  # or whoever asks all the time would do nothing else
        return Answer("", now, error={"message": str(error), "type": "refused", "code": 0}, ended=now)
