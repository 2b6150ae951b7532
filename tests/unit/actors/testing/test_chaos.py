"""A whole engine to which a plan of faults happens: nobody is hit but whom it names."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from actors.core.receipts import CancelReason
from runtime.errors import DeviceLost, ShuttingDown, StepFailed
from runtime.testing.faults import (
    BitFlip,
    CancelAt,
    ClockJump,
    DeviceError,
    DiskError,
    Fault,
    MailboxFlood,
    NotFinite,
    OutOfMemory,
    ShortWrite,
    Shutdown,
    SlowStep,
    ThreadDeath,
    TransferError,
)
from tests.fakes.kv_simulation import open_kv_simulation, open_settled_disk, text
from tests.fakes.simulation import ask, open_simulation, prompt, simulated
from tests.unit.runtime.testing.plans import plan

# --- in a whole engine ------------------------------------------------------------------------------------------------


@simulated()
async def test_a_step_that_raises_with_company_costs_nobody_anything() -> None:
    """I9: it is run again piece by piece, and nobody is the culprit."""
    async with open_simulation(slots=2, chaos=plan(DeviceError(step=4, layer=1))) as sim:
        async with trio.open_nursery() as clients:
            for name in ("a", "b"):
                clients.start_soon(sim.client, ask(name, prompt(9, start=ord(name) % 30), max_tokens=9))
        assert [len(story.tokens()) for story in sim.stories.values()] == [9, 9]
        assert sim.engine.statistics().manager.failed_steps == 1


@simulated()
@pytest.mark.parametrize("kind", [DeviceError, OutOfMemory, NotFinite])
async def test_who_is_alone_with_a_fault_is_told(kind: type[DeviceError]) -> None:
    async with open_simulation(chaos=plan(kind(step=3))) as sim:
        story = await sim.client(ask("a", prompt(9), max_tokens=9))
        assert isinstance(story.failed(), StepFailed)
        assert len((await sim.client(ask("b", prompt(9), max_tokens=9))).tokens()) == 9


@simulated()
async def test_a_thread_that_dies_and_a_layer_that_takes_for_ever() -> None:
    async with open_simulation(chaos=plan(ThreadDeath(step=2), SlowStep(step=5, layer=1, seconds=60))) as sim:
        for name in ("dies", "hangs"):
            story = await sim.client(ask(name, prompt(9), max_tokens=9))
            assert isinstance(story.failed(), DeviceLost)
        assert len((await sim.client(ask("well", prompt(9), max_tokens=9))).tokens()) == 9


@simulated()
async def test_deadlines_pass_when_the_clock_jumps() -> None:
    async with open_simulation(chaos=plan(ClockJump(step=3, seconds=100))) as sim:
        async with trio.open_nursery() as clients:
            clients.start_soon(sim.client, ask("hasty", prompt(9), max_tokens=30, timeout=50))
            clients.start_soon(sim.client, ask("patient", prompt(9, start=8), max_tokens=30))
        assert sim.stories["hasty"].receipt.reason is CancelReason.DEADLINE
        assert len(sim.stories["patient"].tokens()) == 30


@simulated()
async def test_a_crowd_that_comes_and_goes_leaves_nothing_behind() -> None:
    async with open_simulation(slots=1, queue=5, chaos=plan(MailboxFlood(step=3, requests=200))) as sim:
        story = await sim.client(ask("a", prompt(9), max_tokens=9))
        assert len(story.tokens()) == 9
        reasons = [receipt.reason for receipt in sim.engine.receipts(1000)]
        assert reasons == [CancelReason.DISCONNECT] * 5, "no more found a place in the queue"


@simulated()
async def test_a_shutdown_in_the_middle_of_a_step() -> None:
    async with open_simulation(slots=1, chaos=plan(Shutdown(step=3))) as sim:
        async with trio.open_nursery() as clients:
            clients.start_soon(sim.client, ask("runs", prompt(40), max_tokens=9))
            clients.start_soon(partial(sim.client, ask("late", prompt(4)), arrives=1.0))
        assert isinstance(sim.stories["runs"].failed(), ShuttingDown)
        assert isinstance(sim.stories["late"].error, ShuttingDown)


@simulated()
@pytest.mark.parametrize(
    ("actor", "slots", "phase"),
    [("queue", 1, "prefill"), ("restore", 2, "prefill"), ("prefill", 1, "prefill"), ("decode", 1, "decode")],
)
async def test_a_cancel_at_a_checkpoint_of_an_actor(actor: Any, slots: int, phase: str) -> None:  # noqa: ANN401
    async with open_kv_simulation(slots=slots, chaos=plan(CancelAt(actor=actor, checkpoint=1))) as sim:
        async with trio.open_nursery() as clients:
            for name in ("a", "b"):
                clients.start_soon(sim.client, ask(name, text(130, 1), max_tokens=9))
        (receipt,) = sim.engine.receipts(10)
        assert receipt.reason is CancelReason.OPERATOR
        assert receipt.phase == phase  # whoever leaves the queue has just been granted its slot


@simulated()
async def test_kv_that_could_not_be_moved_is_computed() -> None:
    async with open_kv_simulation(chaos=plan(TransferError(transfer=3))) as sim:
        tokens = text(200, 1)
        await sim.client(ask("first", tokens))
        await sim.settle()
        assert sim.reach(tokens) == 2, "the third block could not be saved"


# --- on disk ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [DiskError(write=2), ShortWrite(write=2), BitFlip(write=2, bit=40_000)])
@simulated()
async def test_a_disk_that_fails_costs_only_time(fault: Fault) -> None:
    with tempfile.TemporaryDirectory() as folder:
        chaos = plan(fault)
        with open_settled_disk(Path(folder), chaos=chaos) as disk:
            async with open_kv_simulation(ram=0, disk=disk, chaos=chaos) as sim:
                tokens = text(200, 1)
                first = await sim.client(ask("first", tokens))
                await sim.settle()
                sim.evict()
                again = await sim.client(ask("again", tokens))
                assert again.tokens() == first.tokens()
                assert again.finished().cached_tokens == 64, "what lies behind the block is of no use without it"
        assert [fired.what for fired in chaos.fired] == [fault.what]
