"""A worker: a whole engine, and all that `web.cluster` puts around it; Dynamo's end of it is a model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Self

import trio

from actors.config import EngineConfig
from actors.engine import open_engine
from actors.kv.config import CacheConfig
from actors.kv.prefix_cache import PrefixCache
from actors.manager.block_news import told_of_blocks
from runtime.errors import CedeError
from runtime.kv.held import HeldBlocks
from runtime.kv.token_chain import TokenChain
from runtime.testing.faults import Chaos, FaultPlan, ThreadDeath
from tests.fakes.kv_simulation import ROOT, Faults, KVModel, KVSimulation, KVWatch, Truth
from tests.fakes.ownership import LendableOwner
from tests.fakes.simulation import Simulation, serve_stand_in
from tests.sim.cluster.books import SERVED, Attempt, Attendance
from tests.sim.cluster.discovery import Discovery, Member
from tests.sim.cluster.executor import FreezableExecutor
from tests.sim.cluster.network import Connection, Process, Reset
from tests.sim.cluster.router import Stored, Taken, WorkerBlocks
from tests.sim.cluster.scenario import CONTEXT, Scenario
from tests.sim.grammars import StandInGrammars
from tests.sim.kv.tiers import BLOCK_BYTES
from web.cluster.backend import Backend
from web.cluster.failures import Fate, fate_of
from web.cluster.guest import from_asyncio
from web.cluster.membership import Membership
from web.cluster.routing import BlockEvents, name_of
from web.cluster.worker import STOPPING, DeviceHealth

Json = dict[str, Any]
LAYERS = 3


class Told(Exception):
    """In place of Dynamo's exceptions: what is to become of the request."""

    def __init__(self, error: CedeError) -> None:
        super().__init__(str(error))
        self.fate = fate_of(error)


@dataclass(frozen=True, slots=True)
class Ask:
    """A front door asks for a request, in Dynamo's words."""

    attempt: Attempt
    fields: Json


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of an answer."""

    fields: Json


@dataclass(frozen=True, slots=True)
class Failed:
    """An answer ends with an error."""

    fate: Fate
    text: str


@dataclass(frozen=True, slots=True)
class End:
    """An answer ends."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The answer is not wanted any more."""


@dataclass(frozen=True, slots=True)
class Subscribe:
    """A front door wants to know of KV blocks."""


class Context:
    """Context of a request, as Dynamo gives it to a backend."""

    def __init__(self, request_id: str) -> None:
        self._id = request_id
        self._stopped: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def id(self) -> str:
        """The request's."""
        return self._id

    def async_killed_or_stopped(self) -> asyncio.Future[bool]:
        """Return what is done when nobody wants the answer any longer."""
        return asyncio.ensure_future(self._wait())

    async def _wait(self) -> bool:
        return await asyncio.shield(self._stopped)

    def stop(self) -> None:
        """Nobody does."""
        if not self._stopped.done():
            self._stopped.set_result(True)


class Publisher:
    """Sends what is published to the front doors that have asked for it, and knows what they are to know."""

    def __init__(self) -> None:
        self.events = 0
        self._blocks = WorkerBlocks()
        self._subscribers: dict[Connection, None] = {}

    def publish_stored(
        self, token_ids: list[int], num_block_tokens: list[int], block_hashes: list[int], parent_hash: int | None = None
    ) -> None:
        """Say that blocks can be had here."""
        del num_block_tokens  # all are alike
        self._publish(Stored(tuple(token_ids), tuple(block_hashes), parent_hash))

    def publish_removed(self, block_hashes: list[int]) -> None:
        """Say that blocks cannot be had here any more."""
        self._publish(Taken(tuple(block_hashes)))

    def _publish(self, event: Stored | Taken) -> None:
        self.events += 1
        self._blocks.apply(event)
        for connection in self._subscribers:
            connection.tell_near(event)

    def subscribe(self, connection: Connection) -> None:
        """Tell a front door of all there are, and then of each change."""
        for stored in self._blocks.snapshot():
            connection.tell_near(stored)
        self._subscribers[connection] = None

    def forget(self, connection: Connection) -> None:
        """Tell it nothing more."""
        self._subscribers.pop(connection, None)


class WorkerSimulation(KVSimulation):
    """An engine of a cluster, whose news of blocks are published."""

    def __init__(self, *parts: Any, publisher: Publisher) -> None:  # noqa: ANN401  # those of a `KVSimulation`
        super().__init__(*parts)
        self.held: HeldBlocks
        self._publisher = publisher

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[Self]:
        """Look at the engine while the scope lasts."""
        async with Simulation.watched(self):
            events = BlockEvents(self.manager.cache.root, self._publisher)
            with told_of_blocks(self.manager, events) as self.held:
                yield self


class Worker:
    """One process, from its start to its end.

    Args:
        name: nobody else's.
        number: of its place in the cluster.
        scenario: whose.
        discovery: where it is to be found.
    """

    def __init__(self, name: str, number: int, scenario: Scenario, discovery: Discovery) -> None:
        self.process = Process(name, f"worker-{number}")
        self.number = number
        self.attendance = Attendance(name)
        self.publisher = Publisher()
        self.sim: WorkerSimulation
        self.told_to_stop: float | None = None
        self.died_at: float | None = None
        self.left_discovery_at: float | None = None
        self.frozen: list[tuple[float, float]] = []
        self.violations: list[str] = []
        self.scenario = scenario
        self._member = Member(discovery, self)
        self._membership = Membership(self._member)
        self.over = trio.Event()
        self.was_killed = False
        self._life = trio.CancelScope()
        self._serving: dict[Connection, tuple[Attempt, Context]] = {}
        self._idle = trio.Event()
        self._backend: Backend | None = None
        self._stop = trio.Event()
        self._grace = 0.0

    @property
    def is_in(self) -> bool:
        """Return whether it can be found, as far as it knows."""
        return self._membership.is_in

    # --- its life -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until it is killed, or has stopped as it was told to."""
        with self._life:
            async with self._open() as sim, trio.open_nursery() as nursery:
                self.sim = sim
                health = DeviceHealth()
                self._backend = Backend(sim.engine, nursery, lambda name, request_id: None, self.scenario.beat)
                with sim.engine.observed_by(self.attendance, health):
                    nursery.start_soon(self._member.keep_alive)
                    await from_asyncio(self._member.register_endpoint_instance())
                    nursery.start_soon(health.follow, self._membership)
                    await self._stop.wait()
                    await self._drain()
                self._backend = None
                nursery.cancel_scope.cancel()
        if not self.process.is_dead:
            self._end(answers=True)
        self.over.set()

    async def _drain(self) -> None:
        """As a server does that is told to stop (`web.serving.server`), and then a worker (`web.cluster.worker`)."""
        await self._membership.leave(STOPPING)
        self.left_discovery_at = trio.current_time()
        await self.sim.engine.drain(self._grace)
        await self.sim.engine.wait_all_ended()
        while self._serving:
            self._idle = trio.Event()
            await self._idle.wait()

    def stop(self, grace: float) -> None:
        """SIGTERM."""
        if self.told_to_stop is None:
            self.told_to_stop, self._grace = trio.current_time(), grace
            self._stop.set()

    def kill(self, *, answers: bool) -> None:
        """SIGKILL, or the end of its machine: what it does afterwards nobody sees."""
        if not self.process.is_dead:
            self.was_killed = True
            self._end(answers=answers)
            self._life.cancel()

    def _end(self, *, answers: bool) -> None:
        self.died_at = trio.current_time()
        self.violations = list(self.sim.watch.violations)
        self.process.die(answers=answers)
        for _, context in self._serving.values():
            context.stop()

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[WorkerSimulation]:
        """Open its engine."""
        scenario, faults = self.scenario, Faults()
        plan = FaultPlan(tuple(ThreadDeath(step=step) for one, step in scenario.lost_devices if one == self.number))
        model = KVModel(faults, slots=scenario.slots, context=CONTEXT, num_layers=LAYERS)
        base, row = scenario.step_seconds
        watch = KVWatch(model, lambda rows: (base + row * rows) / LAYERS, Chaos(plan), Truth(), 0.001, None)
        watch.device.recovery_seconds = scenario.recovery
        executor = FreezableExecutor(watch.device, self.process)
        served = serve_stand_in(CONTEXT, (), faults)
        config = EngineConfig(slots=scenario.slots, queue=scenario.queue, chunk_tokens=32)
        cache = PrefixCache(
            ROOT,
            BLOCK_BYTES,
            0,
            ram=scenario.ram * BLOCK_BYTES,
            rings=None,
            disk=None,
            config=CacheConfig(hold_seconds=60.0, piece_bytes=2 * BLOCK_BYTES),
            seed=1,
            owner=LendableOwner(),
        )
        async with open_engine(executor, served, config, cache, StandInGrammars(faults)) as engine:
            parts = engine, model, watch, faults, watch.truth
            async with WorkerSimulation(*parts, publisher=self.publisher).watched() as sim:
                yield sim

    # --- Dynamo's end -------------------------------------------------------------------------------------------------

    def take(self, connection: Connection, message: object) -> None:
        """Something comes from a front door."""
        match message:
            case Ask(attempt, fields):
                attempt.came_at = trio.current_time()
                if self._backend is None:
                    connection.tell_near(Failed(Fate.LEFT, "the worker has stopped"))
                else:
                    self._serve(self._backend, connection, attempt, fields)
            case Subscribe():
                self.publisher.subscribe(connection)
            case Stop() | Reset():
                self.publisher.forget(connection)
                if connection in self._serving:
                    attempt, context = self._serving[connection]
                    attempt.word_at = trio.current_time()
                    context.stop()

    def _serve(self, backend: Backend, connection: Connection, attempt: Attempt, fields: Json) -> None:
        context = Context(attempt.request_id)
        self._serving[connection] = attempt, context
        task = asyncio.get_running_loop().create_task(self._answer(backend, connection, attempt, context, fields))
        task.add_done_callback(lambda done: done.result())

    async def _answer(
        self, backend: Backend, connection: Connection, attempt: Attempt, context: Context, fields: Json
    ) -> None:
        """In asyncio, as Dynamo does: pass on what the backend yields."""
        SERVED.set(attempt)
        try:
            async for chunk in backend.generate(fields, context):
                connection.tell_near(Chunk(chunk))
            connection.tell_near(End())
        except Told as told:
            connection.tell_near(Failed(told.fate, str(told)))
        finally:
            del self._serving[connection]
            if not self._serving:
                self._idle.set()

    def names_held(self) -> set[int]:
        """The names of all blocks that a front door should know of."""
        return {name_of(key) for key in self.sim.held.told}

    def reach(self, tokens: Sequence[int]) -> int:
        """Return how many first blocks of a sequence a front door should know of."""
        told = self.sim.held.told
        return sum(1 for _ in takewhile(told.__contains__, TokenChain(self.sim.manager.cache.root, tokens).keys))
