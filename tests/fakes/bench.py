"""A server that speaks OpenAI's API in this process and in virtual time, for the benchmark's client.

It is an httpx transport, so there is no socket.  Its device does one piece of work at a time: a chunk of a prompt, or a
token.  Whether it notices that a client has gone, and whether it remembers prompts, is up to the test.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count, takewhile
from typing import Any

import httpx
import trio

from bench.client.harness.client import Client
from bench.client.harness.dialect import Dialect
from bench.client.harness.targets import Running, Target

Json = dict[str, Any]


@dataclass
class Behaviour:
    """Behaviour of the server.  Times in seconds.

    Attributes:
        heeds: work stops at the next piece once its client has gone; otherwise it is done to the end.
        ids: chunks say which tokens they hold; otherwise there is one token in each.
        mute: tokens have no text, as those of half a character.
        together: tokens of a step, each sent as an event of its own.
        queue: requests that may wait for a slot; more of them get a 429.
        fails: of the generation endpoints, by status; 0 for none.
        breaks_after: tokens after which a stream ends in an error; 0 for never.
        stops_after: tokens after which a response ends, whatever was asked.
        context: prompts are cut to so many tokens.
        wastes: prompt tokens that each receipt says were computed for nothing; None for a server that does not tell.
        preempts: who has a better priority takes the slot of one that generates, which goes on when that has ended.
        preempt_seconds: of the device, to set one aside, and again to bring it back.
        held_seconds: nobody gets a token for so long after a body of more than `held_bytes` bytes has come.
    """

    prefill_seconds: float = 0.001
    decode_seconds: float = 0.01
    chunk: int = 64
    slots: int = 4
    queue: int = 1000
    heeds: bool = True
    caches: bool = True
    receipts: bool = True
    usage: bool = True
    ids: bool = True
    mute: bool = False
    together: int = 1
    fails: int = 0
    breaks_after: int = 0
    stops_after: int = 10**6
    context: int = 10**6
    wastes: int | None = None
    preempts: bool = False
    preempt_seconds: float = 0.0
    held_seconds: float = 0.0
    held_bytes: int = 10**4


@dataclass
class Job:
    """One request in the server."""

    id: str
    body: Json
    prompt: list[Any]
    said: list[Any] = field(default_factory=list)
    cached: int = 0
    computed: int = 0
    gone: bool = False
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    preempted: trio.Event | None = None
    """Set when it is back; None for one that was not set aside."""

    @property
    def priority(self) -> int:
        """The lower, the earlier."""
        return int(self.body.get("priority", 0))


class FakeServer(httpx.AsyncBaseTransport):
    """Made by `open_server`."""

    def __init__(self, behaviour: Behaviour, nursery: trio.Nursery) -> None:
        self.behaviour = behaviour
        self.bodies: list[Json] = []
        self.receipts: list[Json] = []
        self.busy_seconds = 0.0
        self._nursery = nursery
        self._device = trio.Lock()
        self._slots = trio.Semaphore(behaviour.slots)
        self._jobs: list[Job] = []
        self._decoding: list[Job] = []
        self._live = 0
        self._ids = count()

    # --- HTTP ---------------------------------------------------------------------------------------------------------

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer as a server would; cancelling this is the client's going."""
        if request.method == "GET":
            return self._look_in(request.url.path)
        content = await request.aread()
        body = json.loads(content)
        self.bodies.append(body)
        if len(content) > self.behaviour.held_bytes:
            await self._work(self.behaviour.held_seconds)
        if self.behaviour.fails:
            return httpx.Response(self.behaviour.fails, json={"error": {"message": "as the test wants"}})
        if self._live >= self.behaviour.slots + self.behaviour.queue:
            return httpx.Response(429, json={"error": {"message": "the queue is full"}})
        asked = body["prompt"] if "prompt" in body else body["messages"][0]["content"]
        prompt = asked.split() if isinstance(asked, str) else asked
        job = Job(f"job-{next(self._ids)}", body, prompt[: self.behaviour.context])
        send, receive = trio.open_memory_channel[Json](10**6)
        self._live += 1
        self._nursery.start_soon(self._serve, job, send)
        stream = _Events(self, job, receive)
        if body.get("stream"):
            return httpx.Response(200, stream=stream, headers={"x-request-id": job.id})
        return await self._whole(job, stream)

    def _look_in(self, path: str) -> httpx.Response:
        if path == "/v1/receipts" and self.behaviour.receipts:
            return httpx.Response(200, json={"data": self.receipts[::-1]})
        if path == "/v1/models":
            return httpx.Response(200, json={"data": [{"id": "fake"}]})
        return httpx.Response(404)

    async def _whole(self, job: Job, stream: _Events) -> httpx.Response:
        try:
            events = [event async for event in stream.events]
        except BaseException:
            self.hang_up(job)
            raise
        usage = {"usage": events[-1]["usage"]} if self.behaviour.usage else {}
        text = "".join(choice["text"] for event in events for choice in event["choices"])
        return httpx.Response(200, json={"choices": [{"text": text}]} | usage)

    # --- work ---------------------------------------------------------------------------------------------------------

    async def _serve(self, job: Job, send: trio.MemorySendChannel[Json]) -> None:
        async with send:
            try:
                with job.scope:
                    async with self._slot(job):
                        await self._prefill(job)
                        self._decoding.append(job)
                        await self._decode(job, send)
            finally:
                self._decoding = [other for other in self._decoding if other is not job]
                self._live -= 1
                if job.gone:
                    self._leave_receipt(job)

    @asynccontextmanager
    async def _slot(self, job: Job) -> AsyncIterator[None]:
        victim = self._victim(job) if self.behaviour.preempts and not self._slots.value else None
        if victim is None:
            async with self._slots:
                yield
            return
        victim.preempted = trio.Event()
        await self._work(self.behaviour.preempt_seconds)
        yield
        await self._work(self.behaviour.preempt_seconds)
        victim.preempted.set()
        victim.preempted = None

    def _victim(self, job: Job) -> Job | None:
        there = [other for other in self._decoding if other.preempted is None and other.priority > job.priority]
        return max(there, key=lambda other: other.priority, default=None)

    async def _prefill(self, job: Job) -> None:
        job.cached = job.computed = self._cached(job.prompt)
        self._jobs.append(job)
        while job.computed < len(job.prompt):
            rows = min(self.behaviour.chunk, len(job.prompt) - job.computed)
            await self._work(rows * self.behaviour.prefill_seconds)
            job.computed += rows

    async def _decode(self, job: Job, send: trio.MemorySendChannel[Json]) -> None:
        asked = min(job.body["max_tokens"], self.behaviour.stops_after)
        for number in range(asked):
            if job.preempted is not None:
                await job.preempted.wait()
            if number % self.behaviour.together == 0:
                await self._work(self.behaviour.decode_seconds)
            token = next(map(int, job.body.get("logit_bias", ())), number)
            job.said.append(token)
            choice: Json = {"text": "" if self.behaviour.mute else f"{number} "} | (
                {"token_ids": [token]} if self.behaviour.ids else {}
            )
            send.send_nowait({"choices": [choice]})
            if number + 1 == self.behaviour.breaks_after:
                send.send_nowait({"error": {"message": "as the test wants"}})
                return
        usage = {
            "prompt_tokens": len(job.prompt),
            "completion_tokens": asked,
            "prompt_tokens_details": {"cached_tokens": job.cached},
        }
        send.send_nowait({"choices": [], "timings": {"draft_n": 4, "draft_n_accepted": 3}} | {"usage": usage})

    async def _work(self, seconds: float) -> None:
        async with self._device:
            with trio.CancelScope(shield=True):
                await trio.sleep(seconds)
            self.busy_seconds += seconds

    def _cached(self, prompt: Sequence[Any]) -> int:
        if not self.behaviour.caches:
            return 0
        known = (job.prompt[: job.computed] + job.said[:-1] for job in self._jobs)  # nobody computes the last one
        return min(max((_shared(prompt, one) for one in known), default=0), len(prompt) - 1)

    # --- hanging up ---------------------------------------------------------------------------------------------------

    def hang_up(self, job: Job) -> None:
        """The client has gone."""
        job.gone = True
        if self.behaviour.heeds:
            job.scope.cancel()

    def _leave_receipt(self, job: Job) -> None:
        now = trio.current_time()
        computed = job.computed - job.cached
        tokens = {"cached_tokens": job.cached, "computed_tokens": computed}
        if self.behaviour.wastes is not None:
            tokens["wasted_tokens"] = self.behaviour.wastes
        self.receipts.append({"request_id": job.id, "detected_at": now, "slot_freed_at": now} | tokens)


def _shared(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return how many elements both start with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


class _Events(httpx.AsyncByteStream):
    def __init__(self, server: FakeServer, job: Job, events: trio.MemoryReceiveChannel[Json]) -> None:
        self._server = server
        self._job = job
        self.events = events
        self._over = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for event in self.events:
            if not self._server.behaviour.usage:
                event.pop("usage", None)
            yield f"data: {json.dumps(event)}\n\n".encode()
        self._over = True
        yield b"data: [DONE]\n\n"

    async def aclose(self) -> None:
        if not self._over:
            self._server.hang_up(self._job)


@asynccontextmanager
async def open_server(behaviour: Behaviour | None = None) -> AsyncIterator[FakeServer]:
    """A server that lives as long as the scope."""
    async with trio.open_nursery() as nursery:
        yield FakeServer(behaviour or Behaviour(), nursery)
        nursery.cancel_scope.cancel()


def client_of(server: FakeServer, dialect: Dialect | None = None) -> Client:
    """A client of that server, on the same clock."""
    dialect = dialect or Dialect(model="fake")
    return Client("http://fake", dialect, transport=server, wall_clock=trio.current_time)


def running(server: FakeServer, name: str = "fake", dialect: Dialect | None = None) -> Running:
    """The server as the runner sees it: one that is not ours."""
    return Running(Target(name, "http://fake"), client_of(server, dialect))


class Silence:
    """Nobody wants to know how far a run has come."""

    def begin_turn(self, round: int, target: str) -> None:
        """Show nothing."""

    def note(self, what: str) -> None:
        """Show nothing."""

    def end_turn(self) -> None:
        """Show nothing."""
