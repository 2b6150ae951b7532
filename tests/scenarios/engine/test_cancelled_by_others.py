"""Requests that somebody else than their client cancels: a deadline, an operator, whoever opened them."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from actors.core.generation import FinishReason
from actors.core.receipts import CancelReason
from runtime.errors import DeadlineExceeded
from tests.fakes.simulation import ask, open_simulation, prompt, simulated
from tests.scenarios.engine.together import STEP, same_time


@simulated(seeds=3)
async def test_deadline_before_the_first_token_is_an_error() -> None:
    async with open_simulation(slots=1, step_seconds=same_time) as sim:
        story = await sim.client(ask("a", prompt(100), timeout=0.055))
        error = story.failed()
        assert isinstance(error, DeadlineExceeded)
        assert error.status == 504
        assert (story.receipt.reason, story.receipt.phase) == (CancelReason.DEADLINE, "prefill")
        assert story.times == [pytest.approx(0.055, abs=STEP / 3)]


@simulated(seeds=3)
async def test_deadline_in_the_queue() -> None:
    async with open_simulation(slots=1, step_seconds=same_time) as sim, trio.open_nursery() as nursery:
        nursery.start_soon(sim.client, ask("active", prompt(5), max_tokens=20))
        await trio.sleep(0.001)
        story = await sim.client(ask("late", prompt(5, start=5), timeout=0.05))
        assert isinstance(story.failed(), DeadlineExceeded)
        assert (story.receipt.reason, story.receipt.phase) == (CancelReason.DEADLINE, "queued")


@simulated(seeds=3)
@pytest.mark.parametrize("slots", [1, 2])
async def test_timings_count_what_was_computed_before_a_cancel(slots: int) -> None:
    """Nothing in the queue; a part of the prompt in its middle."""
    async with (
        open_simulation(slots=slots, chunk_tokens=16, step_seconds=same_time) as sim,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(sim.client, ask("active", prompt(5), max_tokens=20))
        await trio.sleep(0.001)
        nursery.start_soon(sim.client, ask("late", prompt(100, start=5)))
        await trio.sleep(0.055)
        sim.engine.cancel("late")
        await sim.engine.wait_all_ended()
        timings, receipt = sim.stories["late"].finished().timings, sim.stories["late"].receipt
        assert timings.prompt_n == receipt.computed_tokens
        assert (timings.prompt_n > 0) == (slots == 2)


@simulated(seeds=3)
async def test_deadline_after_the_first_token_ends_the_output() -> None:
    async with open_simulation(slots=1, step_seconds=same_time, request_timeout=0.055) as sim:
        story = await sim.client(ask("a", prompt(5), max_tokens=50))
        finished = story.finished()
        assert finished.reason is FinishReason.CANCELLED
        assert finished.completion_tokens == len(story.tokens()) == 5
        assert story.receipt.reason is CancelReason.DEADLINE
        longer = await sim.client(ask("b", prompt(5), max_tokens=50, timeout=100.0))
        assert longer.finished().completion_tokens == 50, "the request's own timeout comes first"


@simulated(seeds=4)
async def test_an_operator_cancels_exactly_one() -> None:
    async with open_simulation(slots=3, step_seconds=same_time) as sim, trio.open_nursery() as nursery:
        for n in range(5):
            nursery.start_soon(sim.client, ask(f"r{n}", prompt(5, start=n + 3), max_tokens=12))
        await trio.sleep(0.066)
        assert sim.engine.cancel("r1")
        assert not sim.engine.cancel("nobody")
        await sim.engine.wait_all_ended()
        cancelled = sim.stories["r1"]
        await trio.testing.wait_all_tasks_blocked()
        assert cancelled.finished().reason is FinishReason.CANCELLED
        assert cancelled.receipt.reason is CancelReason.OPERATOR
        for n in (0, 2, 3, 4):
            assert len(sim.stories[f"r{n}"].tokens()) == 12
            assert not sim.stories[f"r{n}"].receipts


@simulated(seeds=3)
async def test_the_first_reason_counts() -> None:
    async with open_simulation(slots=1, step_seconds=same_time) as sim:
        async with sim.engine.open_request(ask("a", prompt(50))) as request:
            await trio.sleep(0.02)
            request.cancel(CancelReason.STALLED_READER)
            request.cancel(CancelReason.OPERATOR)
        assert [receipt.reason for receipt in sim.engine.receipts(5)] == [CancelReason.STALLED_READER]


@simulated(seeds=3)
async def test_the_opener_can_say_what_a_cancel_from_outside_means() -> None:
    async with open_simulation(slots=1, step_seconds=same_time) as sim:
        with trio.move_on_after(0.02):
            async with sim.engine.open_request(
                ask("a", prompt(50)), disconnect_reason=lambda: CancelReason.STALLED_READER
            ) as request:
                await trio.sleep_forever()
        assert request.id == "a"
        assert [receipt.reason for receipt in sim.engine.receipts(5)] == [CancelReason.STALLED_READER]


@simulated(seeds=3)
async def test_leaving_the_scope_early_is_a_hang_up() -> None:
    async with open_simulation(slots=1, step_seconds=same_time) as sim:
        async with sim.engine.open_request(ask("a", prompt(5), max_tokens=50)) as request:
            await anext(aiter(request))
        assert [receipt.reason for receipt in sim.engine.receipts(5)] == [CancelReason.DISCONNECT]
        assert trio.current_time() < 3 * STEP


@simulated(seeds=2)
async def test_the_status_and_the_receipt_say_whose_it_was() -> None:
    async with open_simulation(slots=1, step_seconds=same_time) as sim, trio.open_nursery() as nursery:
        nursery.start_soon(sim.client, ask("a", prompt(5), max_tokens=20, owner="alice"))
        nursery.start_soon(sim.client, ask("b", prompt(5, start=5), max_tokens=20))
        await trio.sleep(STEP * 2)
        assert {status.id: status.owner for status in sim.engine.requests()} == {"a": "alice", "b": None}
        sim.engine.cancel("a")
        sim.engine.cancel("b")
        await sim.engine.wait_all_ended()
        assert [sim.stories[name].receipt.owner for name in "ab"] == ["alice", None]
