"""Discovery: leases that end unless they are renewed, and watchers that are told.  A model of etcd or a folder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import trio

from tests.sim.cluster.network import Connection, Network, Process, Reset


class Found(Protocol):
    """Entry in discovery: a worker."""

    process: Process


@dataclass(frozen=True, slots=True)
class Added:
    """A worker is there."""

    worker: Found


@dataclass(frozen=True, slots=True)
class Removed:
    """A worker is there no more."""

    worker: Found


@dataclass(frozen=True, slots=True)
class Beat:
    """A worker lives; if it wants to be found and is not, it is from now on."""

    worker: Found
    wants_in: bool


@dataclass(frozen=True, slots=True)
class Change:
    """A worker comes or goes; `done` is called when that has been noted, and the word is back."""

    worker: Found
    comes: bool
    done: Callable[[], None]


@dataclass(frozen=True, slots=True)
class _Noted:
    done: Callable[[], None]


class Discovery:
    """Keeps the leases.

    Args:
        network: of the links to it.
        nursery: leases end in tasks there.
        lease: seconds.
    """

    def __init__(self, network: Network, nursery: trio.Nursery, lease: float) -> None:
        self.process = Process("discovery", "discovery")
        self.lease = lease
        self._network = network
        self._nursery = nursery
        self._ends: dict[str, float] = {}
        self._known: dict[str, Found] = {}
        self._watchers: dict[str, Connection] = {}

    def attach(self, process: Process, receive: Callable[[object], None]) -> Connection:
        """Connect a process, to change something or to watch."""
        connection = Connection(
            self._network, process, self.process, receive, lambda message: self._take(connection, message)
        )
        return connection

    def _take(self, connection: Connection, message: object) -> None:
        match message:
            case Beat(worker, wants_in):
                self._renew(worker)
                if wants_in:
                    self._add(worker)
            case Change(worker, comes, done):
                self._renew(worker)
                (self._add if comes else self._remove)(worker)
                connection.tell_near(_Noted(done))
            case "watch":
                self._watchers[connection.near.name] = connection
                for worker in self._known.values():
                    connection.tell_near(Added(worker))
            case Reset():
                self._watchers.pop(connection.near.name, None)

    def _renew(self, worker: Found) -> None:
        name = worker.process.name
        if name not in self._ends:
            self._nursery.start_soon(self._end_lease, worker)
        self._ends[name] = trio.current_time() + self.lease

    async def _end_lease(self, worker: Found) -> None:
        name = worker.process.name
        while (end := self._ends[name]) > trio.current_time():  # noqa: ASYNC110  # it is renewed meanwhile
            await trio.sleep_until(end)
        del self._ends[name]
        self._remove(worker)

    def _add(self, worker: Found) -> None:
        if worker.process.name not in self._known:
            self._known[worker.process.name] = worker
            self._tell(Added(worker))

    def _remove(self, worker: Found) -> None:
        if self._known.pop(worker.process.name, None) is not None:
            self._tell(Removed(worker))

    def _tell(self, news: Added | Removed) -> None:
        for connection in self._watchers.values():
            connection.tell_near(news)


class Member:
    """A worker's place in discovery, in Dynamo's words: the endpoint of `web.cluster.membership`.

    Args:
        discovery: where.
        worker: who.
    """

    def __init__(self, discovery: Discovery, worker: Found) -> None:
        self._worker = worker
        self._lease = discovery.lease
        self._connection = discovery.attach(worker.process, self._take)
        self._wants_in = False

    def _take(self, message: object) -> None:
        if isinstance(message, _Noted):
            message.done()

    async def register_endpoint_instance(self) -> None:
        """Be found by front doors."""
        await self._change(True)

    async def unregister_endpoint_instance(self) -> None:
        """Be found no more."""
        await self._change(False)

    async def _change(self, comes: bool) -> None:
        """In asyncio: return once discovery has said that it is so."""
        noted = asyncio.Event()
        self._wants_in = comes
        self._connection.tell_far(Change(self._worker, comes, noted.set))
        await noted.wait()

    async def keep_alive(self) -> None:
        """Renew the lease until cancelled."""
        while True:
            self._connection.tell_far(Beat(self._worker, self._wants_in))
            await trio.sleep(self._lease / 3)
