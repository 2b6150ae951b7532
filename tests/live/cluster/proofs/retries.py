"""Retries after hang-ups find what was committed, under a steady load; with each of the routers."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import trio

from runtime.kv.blocks import BLOCK_TOKENS
from tests.live.cluster.clusters import chat
from tests.live.cluster.parts import Parts
from tests.live.cluster.proofs.asking import Answer, ask, asked
from tests.live.cluster.proofs.closes import WORDS
from tests.live.cluster.proofs.evidence import leaks, receipts_of
from tests.live.cluster.proofs.load import streamed
from tests.live.server import Json

FLAGS = ("--slots", "4", "--chunk-tokens", "64", "--kv-ram", "256MiB")
WORDS_IN_PROMPT = 350  # some thousand tokens
TOKENS = 60
WARM_UP = 4  # requests for each client, by which the capacity is measured
HANG_UPS = 0.5  # of those who come
LATELY = 8  # answers, the quickest of which says how long one takes
LONGEST_PAUSE = 1.0  # seconds until the same is asked again
ENOUGH = 0.95
"""Of the blocks that a retry may find, and of the retries that have to find so many."""


@dataclass(frozen=True, slots=True)
class Retry:
    """One who hung up, and what the second attempt was answered."""

    first: str
    answer: Answer


@dataclass(slots=True)
class Report:
    """Result of the retries.

    Attributes:
        router: of the front door, and whether there were sessions.
        capacity: requests a second that the cluster answers when it always has enough to do.
        rate: requests a second that came.
        shares: of the tokens in committed blocks, what each retry found.
        nothing: hang-ups before which no block was committed.
    """

    router: str
    capacity: float = 0.0
    rate: float = 0.0
    shares: list[float] = field(default_factory=list)
    nothing: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def found(self) -> float:
        """The share of retries that found enough."""
        return sum(share >= ENOUGH for share in self.shares) / max(1, len(self.shares))

    def __str__(self) -> str:
        """Say it in a few lines."""
        mean = sum(self.shares) / max(1, len(self.shares))
        load, enough = self.rate / self.capacity, f"found {ENOUGH:.0%} of what was committed"
        return "\n".join(
            [
                f"router {self.router}: {self.rate:.2f} requests/s of {self.capacity:.2f}, {load:.0%}",
                f"{self.found:7.1%} of {len(self.shares)} retries {enough}; {mean:.1%} in the mean",
                f"{self.nothing:7} hung up before a block was committed",
                *self.faults[:20],
            ]
        )

    def check(self) -> None:
        """Raise AssertionError if something went wrong; how much is found is for the caller to judge."""
        assert not self.faults, self
        assert self.shares, self


def draw(rng: random.Random) -> Json:
    """A prompt that nobody has asked before."""
    return streamed(chat(" ".join(rng.choices(WORDS, k=WORDS_IN_PROMPT)), TOKENS))


async def retry_many(
    parts: Parts, cases: int, *, load: float, seed: int, router: str, sessions: bool = False
) -> Report:
    """Let clients come at a share of the capacity; each second one hangs up, and asks the same again.

    Args:
        parts: the cluster.
        cases: hang-ups.
        load: share of the capacity.
        seed: decides what comes when.
        router: of the front door, for the report.
        sessions: whether a client says that its second attempt is of the same session as the first.
    """
    name = f"{router}, with sessions" if sessions else router
    rng, report, retries = random.Random(seed), Report(name), list[Retry]()
    report.capacity = await capacity(parts, rng)
    taken: list[float] = []
    began, came = time.perf_counter(), 0
    async with trio.open_nursery() as nursery:
        while len(retries) < cases:
            body = draw(rng)
            came += 1
            if taken and rng.random() < HANG_UPS:
                patience, pause = rng.uniform(0.1, 0.9) * min(taken[-LATELY:]), rng.uniform(0, LONGEST_PAUSE)
                session = f"session {came}" if sessions else None
                nursery.start_soon(hang_up_and_retry, parts, body, patience, pause, retries, session)
            else:
                nursery.start_soon(stay, parts, body, taken)
            await trio.sleep(rng.expovariate(load * report.capacity))
        report.rate = came / (time.perf_counter() - began)
    report.faults += await trio.to_thread.run_sync(leaks, parts.living())
    judge(report, retries, await trio.to_thread.run_sync(receipts_of, parts.living()))
    return report


async def capacity(parts: Parts, rng: random.Random) -> float:
    """Requests a second when there is always enough to do."""
    clients = 4 * len(parts.living())
    taken: list[float] = []

    async def some() -> None:
        for _ in range(WARM_UP):
            await stay(parts, draw(rng), taken)

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for _ in range(clients):
            nursery.start_soon(some)
    return len(taken) / (time.perf_counter() - began)


async def stay(parts: Parts, body: Json, taken: list[float]) -> None:
    """Read an answer to its end, and add the seconds that it took."""
    answer = await ask(parts.address, body)
    taken.append(answer.ended - answer.began)


async def hang_up_and_retry(
    parts: Parts, body: Json, patience: float, pause: float, retries: list[Retry], session: str | None
) -> None:
    """Wait so long for an answer, and ask again a little later, in the same session if there is one."""
    async with asked(parts.address, body, session=session) as asking:
        with trio.move_on_after(patience) as scope:
            await asking.read()
    if scope.cancelled_caught:
        await trio.sleep(pause)
        retries.append(Retry(asking.answer.id, await ask(parts.address, body, session=session)))


def judge(report: Report, retries: Sequence[Retry], receipts: Mapping[str, Sequence[Json]]) -> None:
    """Add what each retry found of what its first attempt had left."""
    for retry in retries:
        if retry.answer.error is not None:
            report.faults.append(f"a retry was told {retry.answer.error}")
            continue
        kept = max((receipt["kept_tokens"] for receipt in receipts.get(retry.first, ())), default=0)
        reusable = min(kept, retry.answer.usage["prompt_tokens"] - 1) // BLOCK_TOKENS * BLOCK_TOKENS
        if reusable:
            report.shares.append(min(1.0, retry.answer.cached / reusable))
        else:
            report.nothing += 1
