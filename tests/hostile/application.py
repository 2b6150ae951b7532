"""The whole application over the simulated engine, in virtual time and without sockets.

Leaving `open_application` looks at the engine's integrity: nothing is left, whatever was asked.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import trio

from actors.generating.grammars import compiler_of
from tests.fakes.simulation import Simulation, open_simulation, serve_stand_in
from tests.hostile.bodies import HostileBody
from tests.hostile.parsers import served_model
from tests.hostile.visits import HostileVisit
from tests.sim.device import Faults
from web.apis.responses.stored.state import open_state
from web.http.asgi import ScopedApp
from web.openapi.operations import Operation
from web.process.access.api_keys import KeyRing
from web.process.limits import Limits
from web.process.options import StateOptions
from web.serving.app import create_app

CONTEXT = 128
FAILURES = (b'"server_error"', b'"internal_error"', b'"api_error"')
"""What an answer may not say that has begun as a stream."""

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, whole."""

    status: int
    headers: Headers
    body: bytes


class Everything(set[str]):
    """The names of all requests: none has the tokens of the stand-in model alone, for any may have a grammar."""

    def __contains__(self, _: object) -> bool:
        """Whatever it is, it is one of them."""
        return True


@dataclass(frozen=True, slots=True)
class Application:
    """The application, and the engine that it serves."""

    app: ScopedApp
    simulation: Simulation

    async def ask(self, method: str, target: str, body: bytes = b"", headers: Headers = ()) -> Answer:
        """Send a request, whole, and return its answer."""
        parts = urlsplit(target)
        named = (("host", "localhost"), ("content-length", str(len(body))), *headers)
        scope = {
            "type": "http",
            "http_version": "1.1",
            "asgi": {"spec_version": "2.1", "version": "3.0"},
            "method": method,
            "scheme": "http",
            "path": unquote(parts.path),
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in named],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
            "state": {},
            "extensions": {},
        }
        coming = [{"type": "http.request", "body": body, "more_body": False}]
        said: list[Any] = []

        async def receive() -> object:
            return coming.pop() if coming else await trio.sleep_forever()

        async def send(message: object) -> None:
            await trio.lowlevel.checkpoint()
            said.append(message)

        await self.app(cast("Any", scope), cast("Any", receive), cast("Any", send))
        start, *pieces = said
        named = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in start["headers"])
        return Answer(start["status"], named, b"".join(piece["body"] for piece in pieces))


@asynccontextmanager
async def open_application(keys: KeyRing | None = None, limits: Limits | None = None) -> AsyncIterator[Application]:
    """Open an application with two slots and a place for stored responses; at the end nothing may be left in it.

    The clock has to jump by itself.
    """
    chat = served_model().chat
    compiler = compiler_of(serve_stand_in(CONTEXT, (), Faults()))
    async with (
        open_simulation(slots=2, context=CONTEXT, layers=1, queue=64, chat=chat, compiler=compiler) as simulation,
        open_state(simulation.engine, StateOptions()) as state,
    ):
        simulation.watch.invariants.not_predicted = Everything()
        yield Application(create_app(simulation.engine, keys=keys, limits=limits, state=state), simulation)


@dataclass(slots=True)
class Answers:
    """Answers to many requests."""

    counts: Counter[tuple[str, str, int]] = field(default_factory=Counter)  # by path, kind and status
    faults: list[str] = field(default_factory=list)

    async def take(self, bodies: Iterable[HostileBody], application: Application) -> None:
        """Send bodies, one after the other."""
        for body in bodies:
            typed = (("content-type", body.content_type),) if body.content_type else ()
            answer = await application.ask("POST", body.path, body.raw, typed)
            self.counts[body.path, body.kind, answer.status] += 1
            if fault := fault_in(answer, body.operation):
                self.faults.append(f"{fault} for {body}; got {answer.body[-500:]!r}")

    async def visit(self, visits: Iterable[HostileVisit], application: Application) -> None:
        """Make things, and ask about each what its visit says."""
        for visit in visits:
            made = await application.ask("POST", visit.makes.path, json.dumps(visit.body).encode())
            self._judge(visit.makes, made, visit)
            made_id = json.loads(made.body).get("id", "none")
            for each in visit.followups:
                method = each.operation.method.upper()
                answer = await application.ask(method, each.target(made_id), each.body, each.headers)
                self._judge(each.operation, answer, visit)

    def _judge(self, operation: Operation, answer: Answer, visit: HostileVisit) -> None:
        self.counts[operation.path, "visit", answer.status] += 1
        if fault := fault_in(answer, operation):
            self.faults.append(f"{fault} for {visit}; got {answer.body[-500:]!r}")

    def __str__(self) -> str:
        """List the statuses by path and by kind, and then the faults."""
        totals: Counter[tuple[str, int]] = Counter()
        for (path, kind, status), count in self.counts.items():
            totals[path, status] += count
            totals[f"all {kind!r}", status] += count
        return "\n".join(
            [*(f"{count:7} {name}: {status}" for (name, status), count in sorted(totals.items())), *self.faults]
        )


def fault_in(answer: Answer, operation: Operation) -> str:
    """Return what is wrong with an answer: a status that is not declared, a failure, or what is no JSON."""
    status = answer.status
    if status not in operation.replies.keys() | (operation.errors - {500}):
        return f"status {status}, which is not declared,"
    if any(words in answer.body for words in FAILURES):
        return f"a failure in an answer of {status}"
    try:
        for text in json_texts(answer):
            json.loads(text, parse_constant=_refuse)
    except ValueError as error:
        return f"an answer of {status} that is no JSON ({error})"
    return ""


def json_texts(answer: Answer) -> list[bytes]:
    """Return the texts in an answer that have to be JSON."""
    kind = dict(answer.headers).get("content-type", "").partition(";")[0]
    lines = answer.body.splitlines()
    match kind:
        case "application/json":
            return [answer.body]
        case "application/x-ndjson":
            return lines
        case "text/event-stream":
            data = [line.removeprefix(b"data: ") for line in lines if line.startswith(b"data: ")]
            return [text for text in data if text != b"[DONE]"]
        case _:
            return []


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is no JSON")
