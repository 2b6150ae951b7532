"""Processes that may die or freeze, and connections between them: in order, late, and held back while a link is cut."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import trio

NEXT = 1e-9  # seconds between two that would come at the same time: they keep their order
BACKOFF = 0.2  # seconds at most from a link's mending until what was held back is sent again


@dataclass(frozen=True, slots=True)
class Partition:
    """Between two nodes nothing passes from `start` to `end`."""

    nodes: frozenset[str]
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Reset:
    """The other end is gone; the last that comes."""


class Process:
    """Something that runs on a node.

    Attributes:
        name: nobody else's, now or later.
        node: the machine, by which links are known.
        is_dead: it does nothing any more.
        answers: while it is dead, its machine still says so.
    """

    def __init__(self, name: str, node: str) -> None:
        self.name = name
        self.node = node
        self.is_dead = False
        self.answers = True
        self.connections: dict[Connection, None] = {}
        self._held: list[Callable[[], None]] = []
        self._runs = trio.Event()
        self._runs.set()

    @property
    def is_frozen(self) -> bool:
        """Return whether it stands still."""
        return not self._runs.is_set()

    def perform(self, act: Callable[[], None]) -> None:
        """Let it do something: now, when it runs again, or never."""
        if self.is_frozen:
            self._held.append(act)
        elif not self.is_dead:
            act()

    async def wait_runs(self) -> None:
        """Return at once unless it is frozen."""
        await self._runs.wait()

    def freeze(self) -> None:
        """SIGSTOP."""
        self._runs = trio.Event()

    def thaw(self) -> None:
        """SIGCONT: all that it would have done meanwhile it does now."""
        held, self._held = self._held, []
        self._runs.set()
        for act in held:
            self.perform(act)

    def die(self, *, answers: bool = True) -> None:
        """SIGKILL; or, if its machine does not answer any more, the machine's end."""
        self.is_dead, self.answers, self._held = True, answers, []
        self._runs.set()
        for connection in list(self.connections):
            connection.end_of(self)


class Network:
    """The links between nodes.

    Args:
        nursery: what is on its way, is a task there.
        seed: of the delays.
        delay: seconds, the least and the most.
        partitions: of the whole run.
    """

    def __init__(
        self, nursery: trio.Nursery, seed: int, delay: tuple[float, float], partitions: Sequence[Partition] = ()
    ) -> None:
        self.messages = 0
        self._nursery = nursery
        self._random = random.Random(seed)
        self._delay = delay
        self._partitions = sorted(partitions, key=lambda one: one.start)

    @property
    def longest_delay(self) -> float:
        """Seconds that anything takes on a link that is whole."""
        return self._delay[1]

    def arrival(self, one: str, other: str, sent: float) -> float:
        """Return when something comes that is sent at that time; if a link is cut meanwhile, after that."""
        at = sent + self._random.uniform(*self._delay)
        for partition in self._partitions:
            if partition.nodes == {one, other} and partition.start <= at and sent < partition.end:
                sent = partition.end
                at = sent + self._random.uniform(*self._delay) + self._random.uniform(0, BACKOFF)
        return at

    def latest(self, one: str, other: str, sent: float) -> float:
        """The latest time at which something can come that is sent at that time."""
        at = sent + self._delay[1]
        for partition in self._partitions:
            if partition.nodes == {one, other} and partition.start <= at and sent < partition.end:
                sent = partition.end
                at = sent + self._delay[1] + BACKOFF
        return at

    def is_cut(self, one: str, other: str, start: float, end: float) -> bool:
        """Return whether nothing passed between two nodes for a part of that time."""
        cuts = (partition for partition in self._partitions if partition.nodes == {one, other})
        return any(cut.start <= end and start <= cut.end + BACKOFF for cut in cuts)

    def deliver_at(self, at: float, act: Callable[[], None]) -> None:
        """Let something happen then."""
        self.messages += 1
        self._nursery.start_soon(self._deliver, at, act)

    async def _deliver(self, at: float, act: Callable[[], None]) -> None:
        await trio.sleep_until(at)
        act()


class Pipe:
    """One direction of a connection.

    Args:
        connection: whose.
        source: who sends.
        target: who is sent to.
        receive: called with each message when it comes.
    """

    def __init__(
        self, connection: Connection, source: Process, target: Process, receive: Callable[[Any], None]
    ) -> None:
        self._connection = connection
        self._source = source
        self._target = target
        self._receive = receive
        self._last = 0.0

    def send(self, message: object) -> None:
        """Send it, as soon as the source runs."""
        self._source.perform(lambda: self.put(message))

    def put(self, message: object) -> None:
        """Put it on its way, whoever is dead."""
        network = self._connection.network
        at = network.arrival(self._source.node, self._target.node, trio.current_time())
        self._last = max(at, self._last + NEXT)
        network.deliver_at(self._last, lambda: self._come(message))

    def _come(self, message: object) -> None:
        if self._target.is_dead:
            self._connection.refuse(self._target)
        else:
            self._target.perform(lambda: self._receive(message))


class Connection:
    """Between the process that opened it (`near`) and the one that it was opened to (`far`).

    Args:
        network: of the link.
        near, far: the ends.
        near_receives, far_receives: called with each message that comes to that end, the last of which is a `Reset`.
    """

    def __init__(
        self,
        network: Network,
        near: Process,
        far: Process,
        near_receives: Callable[[Any], None],
        far_receives: Callable[[Any], None],
    ) -> None:
        self.network = network
        self.near = near
        self.far = far
        self._to_far = Pipe(self, near, far, far_receives)
        self._to_near = Pipe(self, far, near, near_receives)
        self._is_over = False
        near.connections[self] = far.connections[self] = None

    def tell_far(self, message: object) -> None:
        """From the near end."""
        self._to_far.send(message)

    def tell_near(self, message: object) -> None:
        """From the far end."""
        self._to_near.send(message)

    def end_of(self, gone: Process) -> None:
        """One end has died."""
        self._forget()
        if gone.answers:
            self.refuse(gone)

    def refuse(self, gone: Process) -> None:
        """Tell the other end, once, that nobody is here; a machine that is gone does not."""
        if gone.answers and not self._is_over:
            self._is_over = True
            (self._to_near if gone is self.far else self._to_far).put(Reset())

    def _forget(self) -> None:
        self.near.connections.pop(self, None)
        self.far.connections.pop(self, None)

    def close(self) -> None:
        """Nothing is sent any more, and a death of one end is not told."""
        self._is_over = True
        self._forget()
