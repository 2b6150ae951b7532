"""Scenario that is drawn from a seed: a cluster, who asks, and what goes wrong."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TypeAlias

from tests.sim.cluster.network import Partition
from tests.sim.device import VOCABULARY

CONTEXT = 256  # tokens of a slot; a body that asks for fewer is parsed where it is read, and in no thread
FAMILIES = 4  # of prompts that share a beginning


@dataclass(frozen=True, slots=True)
class Death:
    """A worker's process is killed, or its machine is gone; another takes its place after a while."""

    at: float
    worker: int
    answers: bool
    comes_back: float


@dataclass(frozen=True, slots=True)
class Freeze:
    """A worker's process stands still for a while."""

    at: float
    worker: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Drain:
    """A worker is told to stop, and started again when it has."""

    at: float
    worker: int
    grace: float


@dataclass(frozen=True, slots=True)
class DoorDeath:
    """A front door is killed; another takes its place."""

    at: float
    door: int
    comes_back: float


Trouble: TypeAlias = Death | Freeze | Drain | DoorDeath


@dataclass(frozen=True, slots=True)
class Visit:
    """A client.

    Attributes:
        arrives: in virtual seconds.
        door: the one that it asks.
        prompt: token ids.
        max_tokens: of each choice.
        choices: `n`; more than one cannot go on elsewhere.
        penalty: of presence; the stand-in model's tokens are the same with it, but the output is marked.
        session: it says which conversation this is.
        hang_up_after, hang_up_at: so many tokens read, or seconds after its coming.
        asks_again: seconds after its end, it asks once more, unless that is None.
    """

    arrives: float
    door: int
    prompt: tuple[int, ...]
    max_tokens: int
    choices: int = 1
    penalty: float = 0.0
    session: str | None = None
    hang_up_after: int | None = None
    hang_up_at: float | None = None
    asks_again: float | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """A whole run.

    Attributes:
        seed: of Trio's order of tasks, and of delays.
        slots, queue, ram: of each worker; the last in blocks.
        step_seconds: of a step, and of each row in it.
        delay: of a link, the least and the most.
        lease: of discovery.
        silence: of a stream, after which a front door takes its worker to be dead.
        beat: of a worker's signs of life.
        lost_devices: the worker, and the step at which its device is lost.
        recovery: seconds until the device is back.
        shuns_silent: a worker that was silent gets nothing for some seconds, like one that was lost.
    """

    seed: int
    workers: int
    doors: int
    slots: int
    queue: int
    ram: int
    step_seconds: tuple[float, float]
    delay: tuple[float, float]
    lease: float
    silence: float
    beat: float
    visits: tuple[Visit, ...]
    troubles: tuple[Trouble, ...]
    partitions: tuple[Partition, ...]
    lost_devices: tuple[tuple[int, int], ...]
    recovery: float
    shuns_silent: bool


def draw(seed: int) -> Scenario:
    """The scenario of a seed."""
    rng = random.Random(f"cluster {seed}")
    workers, doors = rng.choice([2, 2, 3, 3, 4, 5]), rng.choice([1, 1, 2])
    slow = rng.random() < 0.2  # prompts take longer than anybody would wait for a dead worker
    silence = rng.uniform(2, 6)
    visits = tuple(_visit(rng, doors) for _ in range(rng.randint(4, 14)))
    return Scenario(
        seed=seed,
        workers=workers,
        doors=doors,
        slots=rng.randint(1, 3),
        queue=rng.choice([1, 4, 16]),
        ram=rng.choice([2, 6, 40]),
        step_seconds=(rng.uniform(0.6, 1.5), 0.01) if slow else (rng.uniform(0.01, 0.15), rng.uniform(0, 0.002)),
        delay=rng.choice([(0.0001, 0.001), (0.001, 0.02), (0.01, 0.2)]),
        lease=rng.uniform(3, 10),
        silence=silence,
        beat=silence / 5,
        visits=visits,
        troubles=tuple(_trouble(rng, workers, doors) for _ in range(rng.choice([0, 1, 1, 2, 3]))),
        partitions=tuple(_partition(rng, workers, doors) for _ in range(rng.choice([0, 0, 1, 2]))),
        lost_devices=((rng.randrange(workers), rng.randint(2, 60)),) if rng.random() < 0.15 else (),
        recovery=rng.uniform(0.1, 8),
        shuns_silent=rng.random() < 0.5,
    )


def _visit(rng: random.Random, doors: int) -> Visit:
    max_tokens = rng.choice([1, 4, 12, 30])
    family, length = rng.randrange(FAMILIES), rng.choice([3, 40, 65, 130, 200])
    shared = random.Random(family).choices(range(VOCABULARY), k=length)
    own = rng.choices(range(VOCABULARY), k=rng.choice([1, 1, 20]))
    leaves = rng.random()
    return Visit(
        arrives=rng.uniform(0, 15) if rng.random() < 0.7 else rng.uniform(0, 1),
        door=rng.randrange(doors),
        prompt=(*shared, *own),
        max_tokens=max_tokens,
        choices=2 if rng.random() < 0.12 else 1,
        penalty=0.5 if rng.random() < 0.2 else 0.0,
        session=f"s{rng.randrange(3)}" if rng.random() < 0.25 else None,
        hang_up_after=rng.randint(1, max_tokens) if leaves < 0.15 else None,
        hang_up_at=rng.choice([0.01, 0.3, 2.0]) * rng.random() if 0.15 <= leaves < 0.35 else None,
        asks_again=rng.uniform(0, 3) if rng.random() < 0.4 else None,
    )


def _trouble(rng: random.Random, workers: int, doors: int) -> Trouble:
    at, worker = rng.uniform(0.05, 12), rng.randrange(workers)
    match rng.choice(["death", "death", "freeze", "drain", "door"]):
        case "death":
            return Death(at, worker, rng.random() < 0.7, rng.uniform(0.5, 10))
        case "freeze":
            return Freeze(at, worker, rng.choice([0.5, 5, 20]) * rng.uniform(0.5, 1))
        case "drain":
            return Drain(at, worker, rng.choice([0.0, 0.3, 5.0]))
        case _:
            return DoorDeath(at, rng.randrange(doors), rng.uniform(0.2, 2))


def _partition(rng: random.Random, workers: int, doors: int) -> Partition:
    worker = f"worker-{rng.randrange(workers)}"
    other = rng.choice([f"door-{rng.randrange(doors)}", f"door-{rng.randrange(doors)}", "discovery"])
    start = rng.uniform(0, 12)
    return Partition(frozenset((worker, other)), start, start + rng.choice([0.3, 4.0, 20.0]) * rng.uniform(0.5, 1))
