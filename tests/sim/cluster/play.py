"""Plays a scenario of a cluster to its end, and checks what has come of it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from unittest import mock

import trio

from tests.sim.cluster.books import Story
from tests.sim.cluster.clients import Client
from tests.sim.cluster.discovery import Discovery
from tests.sim.cluster.front_door import GONE, FrontDoor
from tests.sim.cluster.invariants import check_at_end, check_quiet
from tests.sim.cluster.network import Network
from tests.sim.cluster.scenario import Death, DoorDeath, Drain, Freeze, Scenario, Trouble
from tests.sim.cluster.virtual_loop import open_loop
from tests.sim.cluster.worker import Told, Worker
from tests.sim.scheduler import run
from web.cluster import backend

RESTART = 0.5  # seconds until a worker that has stopped as it was told to is started again


@dataclass(slots=True)
class Tally:
    """Counts of what happened in some scenarios."""

    scenarios: int = 0
    virtual_seconds: float = 0.0
    steps: int = 0
    messages: int = 0
    block_events: int = 0
    ended: Counter[str] = field(default_factory=Counter)  # requests, by how
    moved: Counter[str] = field(default_factory=Counter)  # attempts that were given up, by why
    troubles: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Take what happened in other scenarios in."""
        self.scenarios += other.scenarios
        self.virtual_seconds += other.virtual_seconds
        self.steps += other.steps
        self.messages += other.messages
        self.block_events += other.block_events
        for name in ("ended", "moved", "troubles"):
            getattr(self, name).update(getattr(other, name))


@dataclass(slots=True)
class Played:
    """A scenario that went well."""

    tally: Tally
    digest: str  # of what each client saw, and when: two runs of one seed have the same


class Cluster:
    """All there is.

    Attributes:
        network, discovery: between them.
        workers, doors: of now and of earlier.
        clients: all of them.
        scenario: whose.
    """

    def __init__(self, scenario: Scenario, nursery: trio.Nursery) -> None:
        self.scenario = scenario
        self.began = 0.0
        self.network = Network(nursery, scenario.seed, scenario.delay, scenario.partitions)
        self.discovery = Discovery(self.network, nursery, scenario.lease)
        self.workers: list[Worker] = []
        self.doors: list[FrontDoor] = []
        self.clients = [
            Client(f"r{number}", visit, self.network, self.find_door) for number, visit in enumerate(scenario.visits)
        ]
        self._nursery = nursery
        self._current: dict[int, Worker] = {}
        self._open: dict[int, FrontDoor] = {}
        self._door_scopes: dict[int, trio.CancelScope] = {}

    @property
    def stories(self) -> Iterator[Story]:
        """Of all requests."""
        return (story for client in self.clients for story in client.stories)

    def find_door(self, number: int) -> FrontDoor | None:
        """The one that is there now."""
        return self._open.get(number)

    async def start(self) -> None:
        """Start all processes, and wait until front doors know the workers."""
        for number in range(self.scenario.workers):
            self._start_worker(number)
        for number in range(self.scenario.doors):
            await self._nursery.start(self._keep_door, number)
        await trio.sleep(20 * self.network.longest_delay)
        self.began = trio.current_time()

    def _start_worker(self, number: int) -> None:
        worker = Worker(f"worker-{number}.{len(self.workers)}", number, self.scenario, self.discovery)
        self.workers.append(worker)
        self._current[number] = worker
        self._nursery.start_soon(worker.run)

    async def _keep_door(self, number: int, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """One life of a front door."""
        async with trio.open_nursery() as requests:
            name = f"door-{number}.{len(self.doors)}"
            door = FrontDoor(name, number, self.scenario, self.network, self.discovery, requests)
            self.doors.append(door)
            self._open[number], self._door_scopes[number] = door, requests.cancel_scope
            task_status.started()
            await trio.sleep_forever()

    # --- what goes wrong ----------------------------------------------------------------------------------------------

    async def meet(self, trouble: Trouble) -> str | None:
        """Let something go wrong; says what, unless it could not."""
        await trio.sleep_until(self.began + trouble.at)
        match trouble:
            case Death(_, number, answers, comes_back):
                worker = self._current[number]
                if worker.process.is_dead:
                    return None
                worker.kill(answers=answers)
                await trio.sleep(comes_back)
                self._start_worker(number)
                return "death" if answers else "machine lost"
            case Freeze(_, number, seconds):
                return await self._freeze(self._current[number], seconds)
            case Drain(_, number, grace):
                worker = self._current[number]
                if worker.process.is_dead or worker.told_to_stop is not None:
                    return None
                worker.stop(grace)
                await worker.over.wait()
                if worker is self._current[number] and not worker.was_killed:
                    await trio.sleep(RESTART)
                    self._start_worker(number)
                return "drain"
            case DoorDeath(_, number, comes_back):
                return await self._kill_door(number, comes_back)

    async def _freeze(self, worker: Worker, seconds: float) -> str | None:
        if worker.process.is_dead or worker.process.is_frozen:
            return None
        start = trio.current_time()
        worker.process.freeze()
        worker.frozen.append((start, start + seconds))
        await trio.sleep(seconds)
        worker.process.thaw()
        return "freeze"

    async def _kill_door(self, number: int, comes_back: float) -> str | None:
        door = self._open.pop(number, None)
        if door is None:
            return None
        door.process.die()
        self._door_scopes[number].cancel()
        await trio.sleep(comes_back)
        await self._nursery.start(self._keep_door, number)
        return "front door's death"

    # --- its end ------------------------------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Wait until links are whole, all leases and losses have been noted, and nothing is on its way."""
        cuts = (partition.end for partition in self.scenario.partitions)
        await trio.sleep_until(max(trio.current_time(), *cuts, 0.0))
        longest = self.scenario.lease + self.scenario.silence + self.scenario.recovery
        await trio.sleep(2 * longest + 100 * self.network.longest_delay + 10)

    async def stop(self) -> None:
        """Tell all workers to stop; each looks whether all was given back."""
        for worker in self._current.values():
            worker.stop(grace=1.0)
            await worker.over.wait()


def play(scenario: Scenario) -> Played:
    """Play a scenario to its end.

    Raises:
        AssertionError: something did not hold; the message begins with the invariant's name.
        Hung: something waited for ever.
    """

    async def main() -> Played:
        async with open_loop() as loop, trio.open_nursery() as nursery:
            cluster = Cluster(scenario, nursery)
            await cluster.start()
            tally = Tally(scenarios=1)
            async with trio.open_nursery() as clients:
                for client in cluster.clients:
                    clients.start_soon(client.run, cluster.began)
                for trouble in scenario.troubles:
                    clients.start_soon(_meet, cluster, trouble, tally)
            await cluster.settle()
            violations = check_quiet(cluster)
            await cluster.stop()
            violations += check_at_end(cluster) + loop.complaints
            assert not violations, "; ".join(violations[:5])
            _count(cluster, tally)
            nursery.cancel_scope.cancel()
        return Played(tally, _digest(cluster))

    with mock.patch.object(backend, "dynamo_error", Told):
        return run(main, seed=scenario.seed)


async def _meet(cluster: Cluster, trouble: Trouble, tally: Tally) -> None:
    if (what := await cluster.meet(trouble)) is not None:
        tally.troubles[what] += 1


def _count(cluster: Cluster, tally: Tally) -> None:
    tally.virtual_seconds += trio.current_time()
    tally.messages += cluster.network.messages
    for worker in cluster.workers:
        tally.steps += len(worker.sim.steps)
        tally.block_events += worker.publisher.events
    for story in cluster.stories:
        tally.ended[_how(story)] += 1
        tally.moved.update(one.why for one in story.attempts if one.why and one.why != GONE)


def _how(story: Story) -> str:
    if story.hung_up_at is not None:
        return "hung up"
    if story.broken:
        return "broken"
    if story.status is not None:
        return f"{story.status}"
    return "whole" if len(story.attempts) == 1 else "whole, moved"


def _digest(cluster: Cluster) -> str:
    seen = [
        (
            story.id,
            story.asked_at,
            story.tokens,
            story.status,
            [(one.worker, one.sent_at, one.word_at) for one in story.attempts],
        )
        for story in cluster.stories
    ]
    return hashlib.sha256(repr(seen).encode()).hexdigest()[:16]
