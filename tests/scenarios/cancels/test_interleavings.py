"""Random scenarios under random schedulers; whatever happens, the invariants of `tests.fakes.simulation` hold."""

from __future__ import annotations

from dataclasses import dataclass

import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.core.generation import Failed, Finished, FinishReason
from actors.core.receipts import CancelReason
from runtime.errors import DeadlineExceeded, QueueFull, QueueTimeout, RequestError, StepFailed
from tests.fakes.simulation import CULPRIT, Simulation, ask, open_simulation, prompt, run

milliseconds = st.integers(0, 150).map(lambda n: n / 1000)


@dataclass(frozen=True)
class Client:
    """Client: what it asks, and how it behaves."""

    arrives: float
    shared: int  # tokens that its prompt has in common with others
    own: tuple[int, ...]
    generations: int
    max_tokens: int
    hang_up_after: int | None
    hang_up_at: float | None
    deleted_at: float | None
    timeout: float | None
    pause: float
    cache_prompt: bool
    cursed: bool

    @property
    def prompt(self) -> list[int]:
        """Return what it asks: a part that others share, and one of its own."""
        return [*prompt(130)[: self.shared], *self.own, *([CULPRIT] if self.cursed else [])]


sometimes = st.one_of(st.none(), st.none(), milliseconds)
clients = st.builds(
    Client,
    arrives=milliseconds,
    shared=st.one_of(st.integers(0, 40), st.sampled_from([64, 70, 130])),
    own=st.lists(st.integers(0, 3), min_size=1, max_size=6).map(tuple),
    generations=st.sampled_from([1, 1, 1, 2]),
    max_tokens=st.integers(1, 10),
    hang_up_after=st.one_of(st.none(), st.none(), st.integers(0, 8)),
    hang_up_at=sometimes,
    deleted_at=sometimes,
    timeout=st.one_of(st.none(), st.none(), milliseconds.filter(bool)),
    pause=st.sampled_from([0.0, 0.0, 0.02]),
    cache_prompt=st.sampled_from([True, True, True, False]),
    cursed=st.sampled_from([False, False, False, False, True]),
)


@given(
    cast=st.lists(clients, min_size=1, max_size=7),
    slots=st.integers(1, 3),
    queue=st.sampled_from([0, 1, 3, 20]),
    queue_timeout=st.sampled_from([None, None, 0.03]),
    chunk_tokens=st.sampled_from([None, 1, 5, 16]),
    base=st.sampled_from([0.0, 0.002, 0.01]),
    row=st.sampled_from([0.0001, 0.001]),
    layers=st.integers(1, 4),
    not_finite=st.booleans(),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=100, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
def test_nothing_that_clients_do_breaks_an_invariant(
    cast: list[Client],
    slots: int,
    queue: int,
    queue_timeout: float | None,
    chunk_tokens: int | None,
    base: float,
    row: float,
    layers: int,
    not_finite: bool,
    seed: int,
) -> None:
    async def main() -> None:
        async with (
            open_simulation(
                slots=slots,
                layers=layers,
                context=160,
                step_seconds=lambda rows: base + row * rows,
                queue=queue,
                queue_timeout=queue_timeout,
                chunk_tokens=chunk_tokens,
            ) as sim,
            trio.open_nursery() as nursery,
        ):
            (sim.faults.not_finite_on if not_finite else sim.faults.raise_on).add(CULPRIT)
            for n, client in enumerate(cast):
                nursery.start_soon(act, sim, nursery, f"r{n}", client)
        for n, client in enumerate(cast):
            check(sim, f"r{n}", client, places=slots + queue)

    run(main, seed=seed)


async def act(sim: Simulation, nursery: trio.Nursery, request_id: str, client: Client) -> None:
    asked = ask(
        request_id,
        *[client.prompt] * client.generations,
        max_tokens=client.max_tokens,
        timeout=client.timeout,
        cache_prompt=client.cache_prompt,
    )
    if client.deleted_at is not None:
        nursery.start_soon(delete, sim, request_id, client.deleted_at)
    await sim.client(
        asked,
        arrives=client.arrives,
        hang_up_after=client.hang_up_after,
        hang_up_at=float("inf") if client.hang_up_at is None else client.hang_up_at,
        pause=client.pause,
    )


async def delete(sim: Simulation, request_id: str, at: float) -> None:
    await trio.sleep_until(at)
    sim.engine.cancel(request_id)


def check(sim: Simulation, request_id: str, client: Client, places: int) -> None:
    """Each generation ended in a way that something in its script explains."""
    story = sim.stories[request_id]
    if not story.opened:
        too_many = isinstance(story.error, RequestError) and client.generations > places
        is_late = isinstance(story.error, DeadlineExceeded) and story.asked.timeout is not None
        assert story.hung_up or too_many or is_late or isinstance(story.error, QueueFull)
        return
    for index in range(client.generations):
        last = story.last(index)
        reason = next((receipt.reason for receipt in story.receipts if receipt.index == index), None)
        match last:
            case Finished(reason=FinishReason.LENGTH):
                assert len(story.tokens(index, all=True)) == client.max_tokens
                assert not client.cursed
            case Finished(reason=FinishReason.CANCELLED):
                assert reason in explained(client)
            case Failed(error=StepFailed()):
                assert client.cursed
                assert reason is CancelReason.FAULT
            case Failed(error=QueueTimeout()):
                assert reason is CancelReason.QUEUE_TIMEOUT
            case Failed(error=DeadlineExceeded()):
                assert reason is CancelReason.DEADLINE
                assert client.timeout is not None
            case _:
                raise AssertionError(f"{request_id}/{index} ended with {last}")


def explained(client: Client) -> set[CancelReason]:
    reasons = set()
    if client.hang_up_after is not None or client.hang_up_at is not None:
        reasons.add(CancelReason.DISCONNECT)
    if client.deleted_at is not None:
        reasons.add(CancelReason.OPERATOR)
    if client.timeout is not None:
        reasons.add(CancelReason.DEADLINE)
    return reasons
