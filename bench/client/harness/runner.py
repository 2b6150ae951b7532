"""Runs rounds of turns: each target once in each round, one at a time, in an order that rotates."""

from __future__ import annotations

import inspect
import random
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Protocol

import trio

from bench.client.harness.dialect import RequestSpec
from bench.client.harness.figures import Better, Failure, Figure, Record, Sample
from bench.client.harness.machine import describe_machine, today
from bench.client.harness.prompts import PromptMaker, TextScale
from bench.client.harness.targets import open_target, resident_bytes, seen_bytes
from bench.client.harness.trace import RequestFailed
from bench.client.harness.turn import Measurement, measure_freed, measure_unloaded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from bench.client.harness.client import Client
    from bench.client.harness.targets import Running, Target
    from bench.client.harness.turn import Scenario

WARM_UP_REQUESTS = 2

CALIBRATION_WORDS = (32, 256)
"""Words of the two prompts that tell how a server counts the tokens of a text."""

MEMORY_SECONDS = 0.5
"""Seconds between two looks at the memory of a server, which shares its cores with the client."""


class Progress(Protocol):
    """Shows how far a run has come."""

    def begin_turn(self, round: int, target: str) -> None:
        """Show that a target's turn begins; `round` counts from 0."""

    def note(self, what: str) -> None:
        """Show what is being done."""

    def end_turn(self) -> None:
        """Count a turn that has ended."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a run.

    Attributes:
        rounds: turns of each target.
        seed: of all prompts and moments.  Another run needs another seed, or servers have its prompts in their caches.
        limit: seconds after which to give up waiting until a server is free again.
        exclusive: whether a target is up in its own turns only; otherwise all are up throughout.
    """

    rounds: int
    seed: int
    limit: float = 120.0
    exclusive: bool = False


def begin_record(scenario: Scenario, targets: Sequence[Target], plan: Plan) -> Record:
    """Make the record of a run, with all that is known before the first round."""
    return Record(
        scenario=scenario.name,
        about=inspect.getdoc(scenario) or "",
        date=today(),
        parameters=asdict(scenario) | asdict(plan),  # type: ignore[call-overload]
        machine=describe_machine(),
        targets={target.name: target.about or target.url for target in targets},
    )


async def run(
    scenario: Scenario, targets: Sequence[Target], plan: Plan, record: Record, *, logs: Path, progress: Progress
) -> None:
    """Run all rounds of one scenario.

    Args:
        scenario: with its sizes.
        targets: in the order of the first round.
        plan: how to run.
        record: takes the results as they come, so that they are kept if the run is cut short.
        logs: folder for the output of targets that are started here.
        progress: shows how far the run has come.

    Raises:
        TargetError: a target does not come up.  May be in a group.
    """
    async with AsyncExitStack() as up:
        running: dict[str, Running] = {}
        if not plan.exclusive:
            for target in targets:
                running[target.name] = await up.enter_async_context(open_target(target, _log(logs, target)))
        for number in range(plan.rounds):
            for target in rotated(targets, number):
                progress.begin_turn(number, target.name)
                there = running.get(target.name)
                opening: AbstractAsyncContextManager[Running]
                opening = nullcontext(there) if there else open_target(target, _log(logs, target))
                async with opening as server:
                    await take_turn(scenario, server, plan, number, record, progress)
                progress.end_turn()


def rotated(targets: Sequence[Target], round: int) -> list[Target]:
    """Return the targets in the order of a round, which rotates: the first one heats the machine for the others."""
    shift = round % len(targets)
    return [*targets[shift:], *targets[:shift]]


async def take_turn(
    scenario: Scenario, server: Running, plan: Plan, round: int, record: Record, progress: Progress
) -> None:
    """Carry out one target's turn in one round, and add its figures, or why it failed, to the record."""
    name = server.target.name
    try:
        turn = await prepare_turn(scenario, server, plan, round, progress)
        progress.note("warming up")
        for _ in range(WARM_UP_REQUESTS):
            await turn.client.send(turn.short())
        unloaded = await measure_unloaded(turn, probes=3)
        async with open_memory_watch(server) as memory:
            figures = await scenario.measure(turn)
        progress.note("waiting until it is idle")
        left = await measure_freed(turn, unloaded, trio.current_time())
    except* RequestFailed as group:
        record.failures.extend(Failure(name, round, str(error)) for error in leaves(group))
    else:
        record.samples.extend(Sample(name, round, figure) for figure in (*figures, *memory_figures(memory)))
        if left.bounded:
            record.failures.append(Failure(name, round, f"still busy {plan.limit:g} s after its turn"))
    doubts = server.client.doubts
    record.failures.extend(Failure(name, round, f"{number} {doubt}") for doubt, number in doubts.items())
    doubts.clear()


async def prepare_turn(scenario: Scenario, server: Running, plan: Plan, round: int, progress: Progress) -> Measurement:
    """Make a turn, with prompts of its own, and random moments that are the same for the other targets."""
    drawn = random.Random(f"{plan.seed}/{scenario.name}/{round}/{server.target.name}")
    token_ids = server.client.dialect.token_ids
    scale = await calibrate(server.client, drawn) if token_ids is None else None
    return Measurement(
        client=server.client,
        prompts=PromptMaker(drawn, token_ids, scale),
        rng=random.Random(f"{plan.seed}/{scenario.name}/{round}"),
        round=round,
        limit=plan.limit,
        note=progress.note,
        memory=memory_of(server),
    )


def memory_of(server: Running) -> Callable[[], int | None]:
    """Return a function that reads a server's resident bytes.  It looks for the processes once, at its first call."""
    processes = cache(server.visible_processes)
    return lambda: seen_bytes(processes())


async def calibrate(client: Client, rng: random.Random) -> TextScale:
    """Measure how many tokens a server makes of words.  Raises RequestFailed if it does not count them."""
    maker = PromptMaker(rng, None)
    counts = []
    for words in CALIBRATION_WORDS:
        trace = await client.send(RequestSpec(maker.text(words), 1))
        if trace.prompt_tokens is None:
            raise RequestFailed("the server reports no usage, so that the length of a text is not known")
        counts.append((words, trace.prompt_tokens))
    return TextScale.through(*counts)


@dataclass(slots=True)
class Memory:
    """Resident bytes of a server that was started here: before a turn, and at most during it.  0 for other servers."""

    before: int = 0
    peak: int = 0


@asynccontextmanager
async def open_memory_watch(server: Running) -> AsyncIterator[Memory]:
    """Watch a server's memory while the scope lasts."""
    processes = server.processes()
    memory = Memory(resident_bytes(processes))

    async def watch() -> None:
        while True:
            memory.peak = max(memory.peak, resident_bytes(processes))
            await trio.sleep(MEMORY_SECONDS)

    async with trio.open_nursery() as nursery:
        if processes:
            nursery.start_soon(watch)
        yield memory
        nursery.cancel_scope.cancel()


def memory_figures(memory: Memory) -> list[Figure]:
    """Return the figures of memory; none for a server that was not started here."""
    if not memory.peak:
        return []
    return [
        Figure("memory before", memory.before / 2**20, "MiB", Better.LOWER),
        Figure("memory, most", memory.peak / 2**20, "MiB", Better.LOWER),
    ]


def leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """Return the exceptions in nested groups that are not groups themselves."""
    found: list[BaseException] = []
    for error in group.exceptions:
        found += leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


def _log(folder: Path, target: Target) -> Path:
    return folder / f"{target.name}.log"
