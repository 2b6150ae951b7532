"""A front door: takes requests, chooses workers, and asks another one where that may help.  A model of Dynamo's.

It does what docs/use/cluster.md says of Dynamo: some errors, a lost connection and a silence move a request to another
worker, with the tokens so far behind its prompt and under the same id; a worker that is leaving or lost gets nothing
for some seconds; what has several choices is not moved.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import trio

from runtime.kv.blocks import BLOCK_TOKENS
from tests.sim.cluster.books import Attempt, Story
from tests.sim.cluster.discovery import Added, Discovery, Removed
from tests.sim.cluster.network import Connection, Network, Process, Reset
from tests.sim.cluster.router import Stored, Taken, WorkerBlocks, choose
from tests.sim.cluster.scenario import Scenario
from tests.sim.cluster.worker import Ask, Chunk, End, Failed, Stop, Subscribe, Worker
from web.cluster.failures import Fate
from web.cluster.front_door import MIGRATIONS, SESSION_SECONDS

Json = dict[str, Any]
LEFT_ALONE = 5.0  # seconds for which a worker gets nothing that has left, or was lost
AGAIN = "send it again"
GONE = "the client has gone"


@dataclass(frozen=True, slots=True)
class Request:
    """A client asks."""

    story: Story


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens of one choice, and why it ended, if it did."""

    index: int
    tokens: tuple[int, ...]
    finish: str | None


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer is complete, or ends with an error."""

    status: int = 200
    why: str = ""


@dataclass(frozen=True, slots=True)
class HungUp:
    """The client has gone."""


Reply: TypeAlias = "Callable[[Piece | Answered], None]"


class FrontDoor:
    """One process, from its start to its death.

    Args:
        name: nobody else's.
        number: of its place in the cluster.
        scenario: whose.
        network: of its links.
        discovery: where it looks for workers.
        nursery: where its requests run.
    """

    def __init__(
        self,
        name: str,
        number: int,
        scenario: Scenario,
        network: Network,
        discovery: Discovery,
        nursery: trio.Nursery,
    ) -> None:
        self.process = Process(name, f"door-{number}")
        self.blocks: dict[str, WorkerBlocks] = {}
        self.workers: dict[str, Worker] = {}
        self.strange: list[str] = []
        self._scenario = scenario
        self._network = network
        self._nursery = nursery
        self._chance = random.Random(f"{scenario.seed} {name}")
        self._events: dict[str, Connection] = {}
        self._used: dict[str, dict[Attempt, int]] = {}
        self._left_until: dict[str, float] = {}
        self._sessions: dict[str, tuple[str, float]] = {}
        self._scopes: dict[Connection, trio.CancelScope] = {}
        discovery.attach(self.process, self._hear).tell_far("watch")

    # --- who is there -------------------------------------------------------------------------------------------------

    def _hear(self, news: object) -> None:
        """Something comes from discovery."""
        match news:
            case Added(Worker() as worker):
                self.workers[worker.process.name] = worker
                self._subscribe(worker)
            case Removed(Worker() as worker):
                self.workers.pop(worker.process.name, None)
                self._forget_blocks(worker.process.name)

    def _subscribe(self, worker: Worker) -> None:
        name = worker.process.name
        self._forget_blocks(name)
        blocks = self.blocks[name] = WorkerBlocks()

        def learn(event: object) -> None:
            if isinstance(event, Stored | Taken):
                blocks.apply(event)
            elif self._events.get(name) is connection:
                self._forget_blocks(name)

        connection = Connection(
            self._network, self.process, worker.process, learn, lambda message: worker.take(connection, message)
        )
        self._events[name] = connection
        connection.tell_far(Subscribe())

    def _forget_blocks(self, name: str) -> None:
        if (blocks := self.blocks.pop(name, None)) is not None:
            self.strange += blocks.strange
        if (connection := self._events.pop(name, None)) is not None:
            connection.tell_far(Stop())
            connection.close()

    def _choose(self, tokens: list[int], session: str | None) -> Worker | None:
        now = trio.current_time()
        usable = [name for name in self.workers if self._left_until.get(name, 0.0) <= now]
        if session is not None and session in self._sessions:
            name, until = self._sessions[session]
            if name in usable and now <= until:
                self._sessions[session] = name, now + SESSION_SECONDS
                return self.workers[name]
        seen = [(name, self.blocks.get(name), sum(self._used.get(name, {}).values())) for name in usable]
        chosen = choose(tokens, seen, self._chance)
        if chosen is None:
            return None
        if session is not None:
            self._sessions[session] = chosen, now + SESSION_SECONDS
        return self.workers[chosen]

    # --- requests -----------------------------------------------------------------------------------------------------

    def take(self, connection: Connection, message: object) -> None:
        """Something comes from a client."""
        match message:
            case Request(story):
                scope = self._scopes[connection] = trio.CancelScope()
                self._nursery.start_soon(self._handle, connection, story, scope)
            case HungUp() | Reset():
                if connection in self._scopes:
                    self._scopes[connection].cancel()

    async def _handle(self, connection: Connection, story: Story, scope: trio.CancelScope) -> None:
        with scope:
            connection.tell_near(await self._serve(story, connection.tell_near))
        del self._scopes[connection]

    async def _serve(self, story: Story, reply: Reply) -> Answered:
        """Have a request served, by one worker after the other if need be."""
        emitted: list[int] = []
        for moves_left in reversed(range(MIGRATIONS + 1)):
            worker = self._choose([*story.visit.prompt, *emitted], story.visit.session)
            if worker is None:
                return Answered(503, f"no worker; {AGAIN}")
            answer = await self._attempt(worker, story, emitted, reply)
            if answer is not None:
                return answer
            if story.visit.choices > 1:
                return Answered(503, f"cannot go on elsewhere; {AGAIN}")
            if not moves_left:
                return Answered(503, f"moved too often; {AGAIN}")
        raise AssertionError("unreachable")

    async def _attempt(self, worker: Worker, story: Story, emitted: list[int], reply: Reply) -> Answered | None:
        """Ask one worker; returns None if another is to be asked."""
        name, now = worker.process.name, trio.current_time()
        attempt = Attempt(story.id, name, worker.process.node, self.process.name, now)
        story.attempts.append(attempt)
        coming, receive = trio.open_memory_channel[object](10_000)
        connection = Connection(
            self._network,
            self.process,
            worker.process,
            coming.send_nowait,
            lambda message: worker.take(connection, message),
        )
        connection.tell_far(Ask(attempt, asked(story, emitted)))
        blocks = -(-(len(story.visit.prompt) + story.visit.max_tokens) // BLOCK_TOKENS)
        self._used.setdefault(name, {})[attempt] = blocks
        attempt.why = GONE
        try:
            answer = await self._listen(receive, attempt, emitted, reply)
        finally:
            del self._used[name][attempt]
            if attempt.why:
                attempt.left_at = trio.current_time()
                connection.tell_far(Stop())
            connection.close()
        if answer is None and attempt.why != "refused" and (attempt.why != "silence" or self._scenario.shuns_silent):
            self._left_until[name] = trio.current_time() + LEFT_ALONE
        return answer

    async def _listen(
        self,
        receive: trio.MemoryReceiveChannel[object],
        attempt: Attempt,
        emitted: list[int],
        reply: Reply,
    ) -> Answered | None:
        """Pass on what a worker says, to its end; `attempt.why` says what was wrong, and is empty if nothing was."""
        while True:
            message: object = None
            with trio.move_on_after(self._scenario.silence):
                message = await receive.receive()
            match message:
                case None:
                    attempt.why = "silence"
                    return None
                case Chunk(fields):
                    self._pass_on(fields, emitted, reply)
                case End():
                    attempt.why = ""
                    return Answered()
                case Failed(Fate.ELSEWHERE):
                    attempt.why = "refused"
                    return None
                case Failed(Fate.LEFT) | Reset():
                    attempt.why = "lost" if isinstance(message, Reset) else "left"
                    return None
                case Failed(fate, text):
                    attempt.why = ""
                    return Answered({Fate.REFUSED: 400, Fate.LATER: 503}.get(fate, 500), text)

    def _pass_on(self, fields: Json, emitted: list[int], reply: Reply) -> None:
        if "token_ids" in fields:  # and no sign of life
            emitted += fields["token_ids"]
            reply(Piece(fields["index"], tuple(fields["token_ids"]), fields.get("finish_reason")))


def asked(story: Story, emitted: list[int]) -> Json:
    """Return what a worker is asked, in Dynamo's words: what has been sent already is behind the prompt."""
    visit = story.visit
    return {
        "token_ids": [*visit.prompt, *emitted],
        "stop_conditions": {"max_tokens": visit.max_tokens - len(emitted), "ignore_eos": True},
        "sampling_options": {"temperature": 0, "n": visit.choices, "presence_penalty": visit.penalty},
        "output_options": {},
        "eos_token_ids": [],
        "agent_context": {"session_id": visit.session},
    }
