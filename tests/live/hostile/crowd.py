"""Clients that send hostile requests to a server, and two decent ones beside them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import httpx
import trio

from tests.fakes.operations import OPERATIONS
from tests.hostile.application import Answer, fault_in
from tests.hostile.bodies import HostileBody
from tests.hostile.frames import statuses
from tests.hostile.requests import HostileRequest
from tests.hostile.visits import RESPONSES, HostileVisit
from tests.live.http_client import Http1, completion, prompt
from tests.live.server import COMPLETIONS, Json, Server
from tests.soak.clients import Events, open_http1

Hostile = HostileBody | HostileRequest | HostileVisit

NEIGHBOUR_TOKENS = 200
POSTERS = 3  # hostile clients at a time
PAUSE = 0.3  # seconds until a client says that it will send no more
PATIENCE = 1200.0  # seconds; only what hangs takes so long

IN_BACKGROUND = re.compile(rb'"id":"(resp_[0-9a-f]{32})",.*"background":true')
"""Matches the answer that begins a response in the background."""

OF_HTTP = {400, 404, 405, 408, 413, 414, 415, 417, 431, 501}
"""Statuses of what is no request for a declared operation: RFC 9110, and 501 as of RFC 9112, 6.1."""

DECLARED = {status for operation in OPERATIONS for status in operation.replies.keys() | (operation.errors - {500})}


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A decent client: what it asks, again and again, and the tokens that it gets when it is alone."""

    body: Json
    tokens: list[int]

    @classmethod
    def all(cls, server: Server) -> list[Neighbour]:
        """One that is greedy and one that draws, on an idle server."""
        plain = completion(prompt(20, 1), NEIGHBOUR_TOKENS, speculate=False)
        drawn = completion(prompt(30, 2), NEIGHBOUR_TOKENS, temperature=1, seed=77)
        neighbours = []
        for body in (plain, drawn):
            with Http1(server, body) as alone:
                neighbours.append(cls(body, alone.read_all()))
        return neighbours


@dataclass(slots=True)
class Round:
    """Results of some requests: how many answers of each status, and what must not have come."""

    answers: Counter[tuple[str, str]] = field(default_factory=Counter)  # by kind and status
    faults: list[str] = field(default_factory=list)
    compared: int = 0  # tokens of the neighbours

    def add(self, other: Round) -> None:
        """Take in what came of more requests."""
        self.answers += other.answers
        self.faults += other.faults
        self.compared += other.compared


class Crowd:
    """Sends hostile requests to a server, beside its neighbours."""

    def __init__(self, server: Server, neighbours: Sequence[Neighbour]) -> None:
        self._server = server
        self._neighbours = neighbours

    async def send(self, hostile: Iterable[Hostile]) -> Round:
        """All of them, some at a time; each neighbour has at least one whole answer meanwhile."""
        found, waiting = Round(), iter(hostile)
        over = trio.Event()
        async with trio.open_nursery() as nursery:
            for neighbour in self._neighbours:
                nursery.start_soon(self._keep_asking, neighbour, found, over)
            async with httpx.AsyncClient(base_url=self._server.url, timeout=PATIENCE, trust_env=False) as http:
                async with trio.open_nursery() as posters:
                    for _ in range(POSTERS):
                        posters.start_soon(self._send_all, http, waiting, found)
            over.set()
        return found

    async def _send_all(self, http: httpx.AsyncClient, waiting: Iterator[Hostile], found: Round) -> None:
        for each in waiting:
            with trio.move_on_after(PATIENCE) as patience:
                match each:
                    case HostileBody():
                        await _post(http, each, found)
                    case HostileRequest():
                        await _connect(self._server.address, each, found)
                    case HostileVisit():
                        await _visit(http, each, found)
            if patience.cancelled_caught:
                found.faults.append(f"no end within {PATIENCE:g} s for {each}")

    async def _keep_asking(self, neighbour: Neighbour, found: Round, over: trio.Event) -> None:
        content = json.dumps(neighbour.body).encode()
        while True:
            async with open_http1(self._server.address) as exchange:
                await exchange.ask("POST", COMPLETIONS, content)
                status, headers = await exchange.head()
                if status == 429:  # the queue is full of others, who came in good order
                    await trio.sleep(float(headers.get("retry-after", "1")))
                    continue
                events = Events(exchange)
                await events.read()
            if (status, events.tokens) != (200, neighbour.tokens):
                found.faults.append(f"a neighbour got {status}, {events.errors}, {events.tokens}: not {neighbour}")
            found.compared += len(events.tokens)
            if over.is_set():
                return


async def _post(http: httpx.AsyncClient, body: HostileBody, found: Round) -> None:
    headers = {"content-type": body.content_type} if body.content_type else {}
    try:
        response = await http.post(body.path, content=body.raw, headers=headers)
    except httpx.HTTPError as error:  # a server that breaks off is a fault
        found.faults.append(f"broken off ({type(error).__name__}) for {body}")
        return
    answer = _answer(response)
    found.answers[f"body, {body.kind}", str(answer.status)] += 1
    if fault := fault_in(answer, body.operation):
        found.faults.append(f"{fault} for {body}; {answer.body[-500:]!r}")
    if (begun := IN_BACKGROUND.search(answer.body)) is not None:  # or its events would be kept for minutes
        await http.delete(f"{RESPONSES}/{begun[1].decode()}")


async def _visit(http: httpx.AsyncClient, visit: HostileVisit, found: Round) -> None:
    made = _answer(await http.post(visit.makes.path, json=visit.body))
    faults = [fault_in(made, visit.makes)]
    found.answers["visit, post", str(made.status)] += 1
    made_id = json.loads(made.body).get("id", "none")
    for each in visit.followups:
        method = each.operation.method
        answer = _answer(
            await http.request(method.upper(), each.target(made_id), content=each.body, headers=list(each.headers))
        )
        found.answers[f"visit, {method}", str(answer.status)] += 1
        if fault := fault_in(answer, each.operation):
            faults.append(f"{fault} at {each.template[:200]}")
    found.faults += [f"{fault} for {visit}" for fault in faults if fault]


def _answer(response: httpx.Response) -> Answer:
    return Answer(response.status_code, tuple(response.headers.items()), response.content)


async def _connect(address: tuple[str, int], request: HostileRequest, found: Round) -> None:
    """Send bytes, read to the end of the connection, and look at the statuses; there need not be any."""
    answer = bytearray()

    async def read() -> None:
        with suppress(trio.BrokenResourceError):
            while data := await stream.receive_some():
                answer.extend(data)

    async with await trio.open_tcp_stream(*address) as stream:
        with suppress(trio.BrokenResourceError):  # the server need not read to the end what it does not understand
            await stream.send_all(request.raw)
            with trio.move_on_after(PAUSE) as pause:
                await read()
            if pause.cancelled_caught:  # it waits for more, or for the next request, or does not end by itself
                await stream.send_eof()
        await read()
    if request.is_http2:
        told = statuses(bytes(answer))
    else:
        told = [int(status) for status in re.findall(rb"^HTTP/1.1 (\d+)", answer, re.MULTILINE)]
    kind = "HTTP/2" if request.is_http2 else "HTTP/1.1"
    found.answers.update((kind, str(status or "unanswered")) for status in told or [0])
    if wrong := set(told) - OF_HTTP - DECLARED - {100, 204}:
        found.faults.append(f"statuses {wrong} for {request}; {bytes(answer[-500:])!r}")
