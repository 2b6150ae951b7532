"""Plans of faults: what they say, how they are read, and that each fault happens where and when it should."""

from __future__ import annotations

import dataclasses
import re
import signal
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest
import torch
import trio
from click.testing import CliRunner

from actors.core.receipts import CancelReason
from runtime.errors import DeviceLost, ShuttingDown, StepFailed
from runtime.testing.faults import (
    BitFlip,
    CancelAt,
    Chaos,
    ClockJump,
    DeviceError,
    DiskError,
    Fault,
    FaultPlan,
    MailboxFlood,
    NotFinite,
    OutOfMemory,
    ShortWrite,
    Shutdown,
    SlowStep,
    ThreadDeath,
    TransferError,
)
from runtime.testing.unreliable import PlannedFault, UnreliableModel
from tests.fakes.kv_simulation import open_kv_simulation, open_settled_disk, text
from tests.fakes.simulation import ask, open_simulation, prompt, simulated
from tests.live.http_client import Http1, completion
from tests.live.http_client import prompt as live_prompt
from tests.live.server import Server
from tests.models.step_driver import RecordingModel
from tests.models.step_driver import run as run_by_hand
from web.commands.main import main
from web.testing.chaos import ChaosError, load_plan

if TYPE_CHECKING:
    from runtime.step.step import Segment

STEP = 0.01  # seconds


def plan(*faults: Fault) -> Chaos:
    return Chaos(FaultPlan(faults))


# --- what a plan says -------------------------------------------------------------------------------------------------


def test_when_a_fault_is_due() -> None:
    once, again = DeviceError(step=3), DeviceError(step=3, every=5)
    assert [count for count in range(1, 15) if once.is_due(count)] == [3]
    assert [count for count in range(1, 15) if again.is_due(count)] == [3, 8, 13]


def test_the_drafter_counts_its_own_steps() -> None:
    chaos = plan(DeviceError(step=3, drafting=True))
    assert chaos.due_at_step(DeviceError, 3, drafting=False) == []
    assert len(chaos.due_at_step(DeviceError, 3, drafting=True)) == 1


@pytest.mark.parametrize("wrong", [{"step": 0}, {"step": -1}, {"step": 1, "every": 0}])
def test_counting_starts_at_one(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        DeviceError(**wrong)


# --- how it is read ---------------------------------------------------------------------------------------------------

WHOLE = """
[[fault]]
what = "device-error"
step = 20
layer = 3
every = 50

[[fault]]
what = "cancel"
actor = "decode"
checkpoint = 7

[[fault]]
what = "slow-step"
step = 2
seconds = 1
drafting = true
"""


def read(tmp_path: Path, content: str) -> FaultPlan:
    path = tmp_path / "plan.toml"
    path.write_text(content)
    return load_plan(path)


def test_a_plan_from_a_file(tmp_path: Path) -> None:
    assert read(tmp_path, WHOLE) == FaultPlan(
        (
            DeviceError(step=20, layer=3, every=50),
            CancelAt(actor="decode", checkpoint=7),
            SlowStep(step=2, seconds=1.0, drafting=True),
        )
    )


@pytest.mark.parametrize("kind", get_args(Fault))
def test_every_kind_can_be_read_from_a_file(kind: type[Any], tmp_path: Path) -> None:
    fields = {field.name: field for field in dataclasses.fields(kind)}
    values = {"actor": '"queue"', "seconds": "0.5", "what": f'"{fields["what"].default}"'}
    required = [name for name, field in fields.items() if field.default is dataclasses.MISSING]
    lines = [f"{name} = {values.get(name, '3')}" for name in [*required, "what"]]
    (fault,) = read(tmp_path, "[[fault]]\n" + "\n".join(lines)).fault
    assert type(fault) is kind
    assert fault.first == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[[fault]]\nwhat = "earthquake"', "fault 1: .*'earthquake'.*'device-error'"),
        ('[[fault]]\nwhat = "device-error"', "fault 1, step: it is missing"),
        ('[[fault]]\nwhat = "device-error"\nstep = 0', "fault 1: (?!Value error).*at least 1"),
        ('[[fault]]\nwhat = "device-error"\nstep = "soon"', "fault 1, step: it should be a valid integer$"),
        ('[[fault]]\nwhat = "device-error"\nstep = 1\nlyer = 2', "fault 1, lyer: this fault has no such key"),
        ('[[fault]]\nwhat = "cancel"\nactor = "me"\ncheckpoint = 1', "fault 1, actor: .*'queue'"),
        (WHOLE + "[[fault]]\nstep = 1", "fault 4: .*'what'"),
        ("fault = 3", "fault: .*list"),
        ("[[faults]]\nstep = 1", "nothing like faults"),
        ("what?", "plan.toml: "),
    ],
)
def test_a_plan_that_is_none(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ChaosError, match=message):
        read(tmp_path, content)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.2", "::", "example.org", ""])
def test_only_loopback_fails_as_planned(host: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(WHOLE)
    answer = CliRunner().invoke(main, ["serve", "--chaos", str(path), "--host", host])
    assert answer.exit_code == 1
    assert "loopback only" in answer.output


# --- in the device ----------------------------------------------------------------------------------------------------


def drive(model: RecordingModel, chaos: Chaos, segments: list[Segment], **more: Any) -> None:  # noqa: ANN401
    run_by_hand(UnreliableModel(model, chaos, **more), segments)


def test_a_step_raises_in_the_layer_that_was_named(some_segments: list[Segment]) -> None:
    model = RecordingModel(num_layers=4)
    chaos = plan(DeviceError(step=1, layer=2), OutOfMemory(step=2, layer=99))
    unreliable = UnreliableModel(model, chaos)
    with pytest.raises(PlannedFault, match="layer 2"):
        run_by_hand(unreliable, some_segments)
    assert [name for name, _ in model.calls] == ["begin", "layer 0", "layer 1"]
    with pytest.raises(torch.OutOfMemoryError, match="layer 3"):
        run_by_hand(unreliable, some_segments)
    run_by_hand(unreliable, some_segments)
    assert [fault.what for fault in chaos.fired] == ["device-error", "out-of-memory"]


def test_one_segment_is_not_finite(some_segments: list[Segment]) -> None:
    unreliable = UnreliableModel(RecordingModel(), plan(NotFinite(step=1, segment=4)))
    result = run_by_hand(unreliable, some_segments)
    assert [entry.finite for entry in result.segments] == [True, False, True]
    assert not result.segments[1].computed
    assert not result.segments[1].tokens


def test_a_layer_takes_longer(some_segments: list[Segment]) -> None:
    slept: list[float] = []
    drive(RecordingModel(), plan(SlowStep(step=1, layer=1, seconds=3.5)), some_segments, sleep=slept.append)
    assert slept == [3.5]


@pytest.fixture
def some_segments() -> list[Segment]:
    from runtime.step.step import Segment

    return [Segment(slot, 0, prompt(3)) for slot in range(3)]


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


# --- on a real server -------------------------------------------------------------------------------------------------


def test_a_running_server_fails_as_planned(tmp_path: Path) -> None:
    """Loudly; and whoever was not hit is served, before and after."""
    path = tmp_path / "plan.toml"
    path.write_text(
        '[[fault]]\nwhat = "device-error"\nstep = 6\nlayer = 1\n'
        '[[fault]]\nwhat = "mailbox-flood"\nstep = 12\nrequests = 50\n'
        '[[fault]]\nwhat = "thread-death"\nstep = 20\n'
        '[[fault]]\nwhat = "shutdown"\nstep = 40\ngrace = 30\n'
    )
    with Server("--speculate", "off", "--chunk-tokens", "64", "--chaos", str(path)) as server:
        endings = []
        for seed in range(4):
            with Http1(server, completion(live_prompt(10, seed), 12)) as client:
                client.read_all()
                endings.append(client.errors[0]["code"] if client.errors else client.finish_reason)
        assert endings == ["step_failed", "length", "device_lost", "length"]
        assert {receipt["request_id"][:5] for receipt in server.get("/v1/receipts?limit=1000")["data"]} >= {"chaos"}
        with Http1(server, completion(live_prompt(10, 9), 12)) as client:
            client.read_all()
        assert server.wait_exit() in (0, -signal.SIGTERM)
        said = re.findall(r"WARNING cede.chaos: chaos: (\w+)", server.log())
        assert said == ["this", "DeviceError", "MailboxFlood", "ThreadDeath", "Shutdown"]
