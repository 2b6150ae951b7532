"""An engine that says what a test tells it to, behind the same surface as `actors.engine.Engine`."""

from __future__ import annotations

import json
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import trio

from actors.config import EngineConfig
from actors.core.generation import Event, Failed, Finished, FinishReason, GenerationRequest, LiveRequest, Timings, Token
from actors.core.life import State
from actors.core.observer import Observer
from actors.core.places.pages import PoolStatistics
from actors.core.receipts import CancelReason, Receipt, WallClock
from actors.core.slot_views import SlotStatus
from actors.engine import Engine
from actors.generating.unread import Unread
from actors.groups.request_groups import RequestGroups
from actors.kv.prefix_cache import CacheStatistics
from actors.manager.receipt_log import ReceiptLog
from actors.manager.statistics import EngineStatistics, ManagerStatistics, SpeculationStatistics
from runtime.kv.disk.tier import DiskTierStatistics
from runtime.kv.ram_tier import RamTierStatistics
from runtime.loading.served import Proposer, ServedModel
from runtime.sampling.tokens import TokenLogprobs
from tests.fakes.byte_tokenizer import BOS as BOS
from tests.fakes.served_model import CONTEXT as CONTEXT
from tests.fakes.served_model import TEMPLATE as TEMPLATE
from tests.fakes.served_model import VOCABULARY as VOCABULARY
from tests.fakes.served_model import FakeModel
from web.apis.openai.chat import parse_chat
from web.apis.openai.completions import parse_completion
from web.bodies.collect import EventCollector
from web.generation.asked import Asked
from web.generation.openai_format.answers.options import ResponseOptions
from web.http.asgi import ScopedApp

POSITIONS = 128  # of the pool
POOL = PoolStatistics(POSITIONS, 64, 48, 16, 32, 40, (), 2**20, 2**19, 300, 2, 1)
TIMINGS = Timings(prompt_n=3, cache_n=2, prompt_ms=6.0, predicted_n=4, predicted_ms=10.0)

Script = Callable[["FakeRequest"], Awaitable[None]]


def model(**changes: Any) -> ServedModel:  # noqa: ANN401
    """Return a model with these changes, as the web layer knows it."""
    return cast("ServedModel", FakeModel(**changes))


def chat(**fields: Any) -> Asked[ResponseOptions]:  # noqa: ANN401
    """The job of a chat body with these fields, beside one message unless given."""
    body = {"messages": [{"role": "user", "content": "hi"}]} | fields
    return parse_chat(json.dumps(body).encode(), model())


def completion(**fields: Any) -> Asked[ResponseOptions]:  # noqa: ANN401
    """The job of a completion body with these fields, beside a prompt unless given."""
    return parse_completion(json.dumps({"prompt": "hi"} | fields).encode(), model())


def token(text: str, index: int = 0, logprobs: TokenLogprobs | None = None) -> Token:
    """A token whose id is its first byte; the empty text has id 0."""
    return Token(index, (text.encode() or b"\0")[0], text, logprobs)


def finished(
    index: int = 0, reason: FinishReason = FinishReason.STOP, *, text: str = "", tokens: int = 2, cached: int = 0
) -> Finished:
    """Return the event that ends a generation."""
    return Finished(index, reason, text, 3, cached, tokens, TIMINGS)


def say(*texts: str, index: int = 0) -> list[Event]:
    """The events of a generation that says `texts`, one token each, and stops."""
    return [*(token(text, index) for text in texts), finished(index, tokens=len(texts))]


# --- the engine -------------------------------------------------------------------------------------------


def fill(collector: EventCollector, events: Iterable[Event]) -> None:
    """Give a collector the events of generations that do not fail."""
    for event in events:
        assert not isinstance(event, Failed)
        collector.add(event)


class FakeRequest:
    """A live request.  The test, or its engine's script, emits the events."""

    def __init__(self, asked: GenerationRequest) -> None:
        self.asked = asked
        self.id = asked.id
        self.cancels: list[CancelReason] = []
        self.prefill_only = trio.Event()
        self.left = trio.Event()
        self.hung_up: CancelReason | None = None  # what `disconnect_reason` said, if a cancel came from outside
        self._send, self._receive = trio.open_memory_channel[Event](math.inf)
        self._unfinished = len(asked.prompts)

    def __aiter__(self) -> AsyncIterator[Event]:
        """Iterate over the events that were emitted."""
        return self._receive.__aiter__()

    def event_nowait(self) -> Event | None:
        """Return the next event, None if there is none yet or none any more."""
        try:
            return self._receive.receive_nowait()
        except (trio.WouldBlock, trio.EndOfChannel):
            return None

    def emit(self, *events: Event) -> None:
        """Let these events happen; the request ends when each of its prompts has its last."""
        for event in events:
            self._send.send_nowait(event)
            self._unfinished -= isinstance(event, Finished | Failed)
        if not self._unfinished:
            self._send.close()

    def finish_prefill(self) -> None:
        """Note that the prompt alone is wanted any more."""
        self.prefill_only.set()

    def cancel(self, reason: CancelReason) -> None:
        """Note the cancel, and end the generations."""
        self.cancels.append(reason)
        if self._unfinished:
            self.emit(replace(finished(0, FinishReason.CANCELLED, tokens=0), cancelled=reason))


class FakeEngine:
    """Opens FakeRequests, each of which runs `script` in a nursery around the opener, as the real one does."""

    def __init__(self, script: Script | Sequence[Event] | None = None) -> None:
        self.model = FakeModel()
        self.most_generations = 68
        self.config = EngineConfig(slots=2)
        self.refusal: Exception | None = None
        self.sick: str | None = None
        self.has_disk = True
        self.live: dict[str, FakeRequest] = {}
        self.log: list[Receipt] = []
        self.unread = Unread()
        self.groups = RequestGroups()
        self.openings = 0
        self.in_slot = "cmpl-1"  # the id of the request in the first slot
        self._script = script
        self._open, self._opened = trio.open_memory_channel[FakeRequest](math.inf)

    async def next_request(self) -> FakeRequest:
        """The next request to be opened."""
        return await self._opened.receive()

    @asynccontextmanager
    async def open_request(
        self, asked: GenerationRequest, *, disconnect_reason: Callable[[], CancelReason]
    ) -> AsyncIterator[FakeRequest]:
        """Open a request, and run the script beside it."""
        if self.refusal is not None:
            raise self.refusal
        request = self.live[asked.id] = FakeRequest(asked)
        self.openings += 1
        self._open.send_nowait(request)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._run, request)
                try:
                    yield request
                except trio.Cancelled:
                    request.hung_up = disconnect_reason()
                    raise
                nursery.cancel_scope.cancel()
        finally:
            del self.live[asked.id]
            request.left.set()

    async def _run(self, request: FakeRequest) -> None:
        if callable(self._script):
            await self._script(request)
        elif self._script is not None:
            request.emit(*self._script)

    def cancel(self, request_id: str, reason: CancelReason = CancelReason.OPERATOR) -> bool:
        """Cancel a live request; tell whether there is one of that id."""
        request = self.live.get(request_id)
        if request is not None:
            request.cancel(reason)
        return request is not None

    def requests(self) -> list[LiveRequest]:
        """Return the live requests, all in the queue."""
        return [
            LiveRequest(r.id, time.time(), (State.QUEUED,), 3, 0, (None,), r.asked.owner) for r in self.live.values()
        ]

    def slots(self) -> list[SlotStatus]:
        """Return two slots: one decodes, one is idle."""
        return [SlotStatus(0, State.DECODE, self.in_slot, 7, 0, 9), SlotStatus(1, "idle", None, 0, 5, 4)]

    async def wait_ended(self, request_id: str) -> None:
        """Wait for the end of a request that lives."""
        if request_id in self.live:
            await self.live[request_id].left.wait()

    @property
    def manager(self) -> SimpleNamespace:
        """Return what is looked at of the manager's: the clock, the receipts, and how long the pool is."""
        places = [SimpleNamespace(tokens=range(max(slot.tokens, slot.resident_tokens))) for slot in self.slots()]
        table = SimpleNamespace(pages=SimpleNamespace(positions=POSITIONS), places=places)
        wall = WallClock(time.time, time.time)
        return SimpleNamespace(wall=wall, receipts=ReceiptLog(wall.at), table=table)

    def observed_by(self, *observers: Observer) -> AbstractContextManager[None]:
        """Tell these nothing: nothing happens here."""
        return nullcontext()

    def receipts(self, limit: int | None = None) -> list[Receipt]:
        """Return what the log has, the newest first."""
        return self.log[::-1][:limit]

    def statistics(self) -> EngineStatistics:
        """Return made-up figures."""
        disk = DiskTierStatistics(3, 300, 1000, 1, 4, 2, 0, 1, 0, {"checksum": 1}, 0, suspended=False)
        hits = {"resident": 5, "live": 0, "ram": 64, "disk": 128}
        cache = CacheStatistics(hits, 1, 2, 1, 0, RamTierStatistics(2, 200, 500, 7), disk if self.has_disk else None)
        manager = ManagerStatistics(9, 20, 12, 8, 0, 1, 2, 4, {"client_disconnect": 3}, cache, POOL)
        speculation = SpeculationStatistics(Proposer.MTP, 10, 14, 4, 12, 9, 0.75)
        return EngineStatistics(len(self.live), manager, speculation, self.unread.statistics())

    def health(self) -> str | None:
        """Return what is wrong, if a test said so."""
        return self.sick


def as_engine(fake: FakeEngine) -> Engine:
    """Return it as what it stands for."""
    return cast("Engine", fake)


# --- HTTP -------------------------------------------------------------------------------------------------


class Exchange:
    """One request on its way through an ASGI application, seen from the server."""

    http_version = "1.1"

    def __init__(self, path: str, state: dict[str, Any], headers: dict[str, str]) -> None:
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self._scope = {
            "type": "http",
            "http_version": self.http_version,
            "asgi": {"spec_version": "2.1", "version": "3.0"},
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(n.encode(), v.encode()) for n, v in ({"host": "localhost"} | headers).items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
            "state": state,
            "extensions": {},
        }
        self._to_app, self._from_client = trio.open_memory_channel[dict[str, Any]](math.inf)
        self._from_app, self.writes = trio.open_memory_channel[bytes](math.inf)

    async def run(self, app: ScopedApp) -> None:
        """Serve the request to its end."""
        with self._from_app:
            await app(cast("Any", self._scope), cast("Any", self._from_client.receive), self.app_sends)

    async def app_sends(self, message: Any) -> None:  # noqa: ANN401
        """Take a message of the answer, as the server does."""
        await trio.lowlevel.checkpoint()
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        elif message["body"]:
            self._from_app.send_nowait(message["body"])

    def send(self, data: bytes, *, more: bool = False) -> None:
        """Let a piece of the request's body come."""
        self._to_app.send_nowait({"type": "http.request", "body": data, "more_body": more})

    def disconnect(self) -> None:
        """Let the client hang up."""
        self._to_app.send_nowait({"type": "http.disconnect"})

    async def receive(self) -> bytes:
        """One write of the application's."""
        return await self.writes.receive()

    async def receive_all(self) -> bytes:
        """The rest of the response's body."""
        return b"".join([data async for data in self.writes])


@asynccontextmanager
async def posting(
    app: ScopedApp,
    path: str,
    body: object,
    *,
    more: bool = False,
    state: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
    exchange: type[Exchange] = Exchange,
) -> AsyncIterator[Exchange]:
    """A POST whose body is sent (unless there is `more`); leaving waits for the application to end."""
    posted = exchange(path, state or {}, headers or {})
    posted.send(body if isinstance(body, bytes) else json.dumps(body).encode(), more=more)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(posted.run, app)
        yield posted


def events_of(body: bytes) -> list[Any]:
    """The JSON of every server-sent event in `body`; `[DONE]` stays a string, comments are left out."""
    assert body.endswith(b"\n\n")
    lines = [event for event in body.decode().split("\n\n") if event and not event.startswith(":")]
    assert all(line.startswith("data: ") for line in lines)
    data = [line.removeprefix("data: ") for line in lines]
    return [text if text == "[DONE]" else json.loads(text) for text in data]
