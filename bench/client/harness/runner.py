"""Rounds and turns: every target in each round, one at a time, and in an order that changes from round to round."""

from __future__ import annotations

import inspect
import random
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Protocol

import trio

from bench.client.harness.client import RequestFailed, RequestSpec
from bench.client.harness.figures import Better, Failure, Figure, Record, Sample
from bench.client.harness.machine import describe_machine, today
from bench.client.harness.prompts import PromptMaker, TextScale
from bench.client.harness.targets import open_target, resident_bytes, seen_bytes
from bench.client.harness.turn import Turn, measure_freed, measure_unloaded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from bench.client.harness.client import Client
    from bench.client.harness.targets import Running, Target
    from bench.client.harness.turn import Scenario

WARM_UP_REQUESTS = 2
CALIBRATION_WORDS = (32, 256)
MEMORY_SECONDS = 0.5  # between two looks, which cost a client on the same cores next to nothing


class Progress(Protocol):
    """Who is told how far the run has come."""

    def begin_turn(self, round: int, target: str) -> None: ...
    def note(self, what: str) -> None: ...
    def end_turn(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Plan:
    """How often and how.

    Attributes:
        rounds: turns of each target.
        seed: of all prompts and moments; another one for another run, or servers know the prompts already.
        limit: seconds after which waiting for a server to be free again is given up.
        exclusive: start a target for its turn and stop it after, instead of having all of them up throughout.
    """

    rounds: int
    seed: int
    limit: float = 120.0
    exclusive: bool = False


def begin_record(scenario: Scenario, targets: Sequence[Target], plan: Plan) -> Record:
    """A record of all that is known before the first round."""
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
    """All rounds of one scenario.

    Args:
        record: takes what is found, so that it is there even if this is cut short.
        logs: folder for what the targets that we start have to say.

    Raises:
        TargetError: a target does not come up.  May come in a group.
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
    """The order of a round: whoever comes first heats the machine for the others."""
    shift = round % len(targets)
    return [*targets[shift:], *targets[:shift]]


async def take_turn(
    scenario: Scenario, server: Running, plan: Plan, round: int, record: Record, progress: Progress
) -> None:
    """One target's turn in one round; what it finds, or why it failed, goes to the record."""
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


async def prepare_turn(scenario: Scenario, server: Running, plan: Plan, round: int, progress: Progress) -> Turn:
    """The turn, with prompts of its own and moments that it shares with the other targets."""
    drawn = random.Random(f"{plan.seed}/{scenario.name}/{round}/{server.target.name}")
    token_ids = server.client.dialect.token_ids
    scale = await calibrate(server.client, drawn) if token_ids is None else None
    return Turn(
        client=server.client,
        prompts=PromptMaker(drawn, token_ids, scale),
        rng=random.Random(f"{plan.seed}/{scenario.name}/{round}"),
        round=round,
        limit=plan.limit,
        note=progress.note,
        memory=memory_of(server),
    )


def memory_of(server: Running) -> Callable[[], int | None]:
    """Looks at a server's resident bytes; whose they are is found out at the first look."""
    processes = cache(server.seen_processes)
    return lambda: seen_bytes(processes())


async def calibrate(client: Client, rng: random.Random) -> TextScale:
    """How many tokens this server makes of words.  Raises RequestFailed if it does not count them."""
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
    """Resident bytes of a server and its children: before a turn, and at most during it.  0 where it is not ours."""

    before: int = 0
    peak: int = 0


@asynccontextmanager
async def open_memory_watch(server: Running) -> AsyncIterator[Memory]:
    """Look now and then while the scope lasts."""
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
    """Of a server that is ours."""
    if not memory.peak:
        return []
    return [
        Figure("memory before", memory.before / 2**20, "MiB", Better.LOWER),
        Figure("memory, most", memory.peak / 2**20, "MiB", Better.LOWER),
    ]


def leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """The errors in nested groups."""
    found: list[BaseException] = []
    for error in group.exceptions:
        found += leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


def _log(folder: Path, target: Target) -> Path:
    return folder / f"{target.name}.log"
