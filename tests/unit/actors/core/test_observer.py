"""Observers: what they are told, and what that costs: nothing where nobody listens, and no request where one raises."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
import trio

from actors.config import EngineConfig
from actors.core import events
from actors.core.events import HOOKS, ActorStage, Granted, LayerDone, Queued, StageBegun, StepBegins
from actors.core.generation import GenerationRequest
from actors.core.life import State
from actors.core.observer import Observer, Observers
from actors.core.receipts import CancelReason
from actors.engine import Engine, open_engine
from runtime.errors import QueueFull
from runtime.loading.served import Proposer
from runtime.step.executor import SimulatedExecutor
from runtime.testing.faults import Chaos, DeviceError, FaultPlan, ThreadDeath
from runtime.testing.simulated import SimulatedDrafter, stand_in
from tests.fakes.simulation import CULPRIT, Faults, FaultyModel, ask, open_simulation, prompt, simulated


class Recorder(Observer):
    """Keeps every event, with the name of its hook.  Hooks are made here, so that none can be forgotten."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    @property
    def names(self) -> list[str]:
        """Of the hooks, in order, and of a stage that begins its name."""
        return [event.stage.value if isinstance(event, StageBegun) else name for name, event in self.told]

    def of(self, name: str) -> list[Any]:
        """The events of one hook."""
        return [event for hook, event in self.told if hook == name]


def _recording(name: str) -> Callable[[Recorder, Any], None]:
    def hook(self: Recorder, event: Any) -> None:  # noqa: ANN401  whatever the hook's event is
        self.told.append((name, event))

    return hook


for _name in HOOKS:
    setattr(Recorder, _name, _recording(_name))


@simulated()
async def test_a_request_is_told_of_from_the_queue_to_the_free_slot() -> None:
    recorder = Recorder()
    async with open_simulation(slots=1, layers=2) as sim:
        with sim.engine.observed_by(recorder):
            await sim.client(ask("a", prompt(11), max_tokens=3))
    step = ["step_begins", "layer_done", "layer_done", "step_ended", "committed"]
    work = ["submitted", *step]
    assert recorder.names == [
        *("arrived", "queued", "granted", "restoring", "prefill"),
        *work,
        *work,
        *("decode", "emitted"),
        *work,
        "emitted",
        *work,
        "emitted",
        *("leaving", "released", "ended", "departed"),
    ]
    (queued,), (granted,), (released,) = (recorder.of(name) for name in ("queued", "granted", "released"))
    assert queued == Queued("a", 0, prompt_tokens=11, number=1)
    assert granted == Granted("a", 0, slot=0, cached_tokens=0, leaders=())
    assert (released.slot, released.reason) == (0, None)
    assert released.committed_tokens == sum(event.rows for event in recorder.of("committed")) == 13
    first, second, *_ = recorder.of("step_begins")
    assert [part.token_ids for part in first.parts + second.parts] == [tuple(prompt(11)[:8]), tuple(prompt(11)[8:])]
    assert (first.number, second.number, second.parts[0].start) == (1, 2, 8)
    assert recorder.of("layer_done")[:3] == [LayerDone(1, False, 0), LayerDone(1, False, 1), LayerDone(2, False, 0)]


@simulated()
async def test_a_cancel_is_told_before_its_receipt_and_that_before_the_free_slot() -> None:
    recorder = Recorder()
    async with open_simulation(slots=1) as sim:
        with sim.engine.observed_by(recorder):
            story = await sim.client(ask("a", prompt(40)), hang_up_after=0)
    ends = [name for name, _ in recorder.told if name in ("cancelled", "receipt", "released")]
    assert ends == ["cancelled", "receipt", "released"]
    (receipt,), (released,) = recorder.of("receipt"), recorder.of("released")
    assert receipt == story.receipt
    assert released.reason is CancelReason.DISCONNECT
    assert released.committed_tokens == receipt.kept_tokens


@simulated()
async def test_who_waits_is_told_of_and_who_is_refused() -> None:
    recorder = Recorder()
    async with open_simulation(slots=1, queue=1) as sim:
        with sim.engine.observed_by(recorder):
            async with trio.open_nursery() as nursery:
                for name in ("a", "b", "c"):
                    nursery.start_soon(sim.client, ask(name, prompt(9, start=ord(name) - 90)))
    (refused,) = recorder.of("refused")
    assert isinstance(refused.error, QueueFull)
    waiting = [event.request_id for event in recorder.of("stage_begun") if event.stage is ActorStage.WAITING]
    assert sorted([refused.request_id, waiting[0], recorder.of("granted")[0].request_id]) == ["a", "b", "c"]


@simulated()
async def test_drafts_are_told_of_as_steps_of_their_own() -> None:
    recorder = Recorder()
    async with open_simulation(slots=1, speculate=Proposer.DRAFT, draft_tokens=2) as sim:
        with sim.engine.observed_by(recorder):
            await sim.client(ask("a", prompt(9), max_tokens=8))
    begun: list[StepBegins] = recorder.of("step_begins")
    assert {event.drafting for event in begun} == {False, True}
    for drafting in (False, True):
        assert [event.number for event in begun if event.drafting is drafting] == list(
            range(1, 1 + sum(event.drafting is drafting for event in begun))
        )
    phases = {part.phase for event in begun for part in event.parts if part.drafts}
    assert phases == {State.VERIFY}
    verified = [event for event in recorder.of("committed") if event.drafted]
    assert all(event.rows == 1 + event.accepted for event in verified)


@simulated()
async def test_a_step_that_raises_and_what_it_costs_are_told() -> None:
    recorder = Recorder()
    async with open_simulation(slots=2, chaos=Chaos(FaultPlan((DeviceError(step=2),)))) as sim:
        with sim.engine.observed_by(recorder):
            await sim.client(ask("a", prompt(20)))
    assert [event.number for event in recorder.of("step_raised")] == [2]
    assert [event.key for event in recorder.of("invalidated")] == [("a", 0)]


@simulated()
async def test_a_device_that_is_lost_and_back_is_told() -> None:
    recorder = Recorder()
    async with open_simulation(slots=1, chaos=Chaos(FaultPlan((ThreadDeath(step=2),)))) as sim:
        with sim.engine.observed_by(recorder):
            await sim.client(ask("a", prompt(20)))
            await sim.client(ask("b", prompt(20)))
    assert [event.queue_waits for event in recorder.of("device_lost")] == [True]
    assert len(recorder.of("device_back")) == 1


class _Failing(Observer):
    def __init__(self) -> None:
        self.calls = 0

    def granted(self, event: Granted) -> None:
        self.calls += 1
        raise ZeroDivisionError("a bug in an observer")

    def step_begins(self, event: StepBegins) -> None:
        self.calls += 1


class _FailingInALayer(Observer):
    def layer_done(self, event: LayerDone) -> None:
        raise ZeroDivisionError("a bug in an observer")


@simulated()
async def test_an_observer_that_raises_is_removed_and_harms_nobody() -> None:
    failing, recorder = _Failing(), Recorder()
    async with open_simulation(slots=1) as sim:
        with sim.engine.observed_by(failing, _FailingInALayer(), recorder):
            story = await sim.client(ask("a", prompt(9)))
    assert len(story.tokens()) == 4
    assert failing.calls == 1  # it is told nothing more
    assert "released" in recorder.names  # the others are


def test_an_observer_that_raises_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    observers = Observers()
    with observers.including(_Failing()), caplog.at_level(logging.ERROR, "cede.engine"):
        observers.tell(observers.granted, Granted("a", 0, 0, 0, ()))
        assert not observers.granted
        assert not observers.step_begins
    assert "_Failing" in caplog.text
    assert "a bug in an observer" in caplog.text


def test_only_hooks_that_are_overridden_have_listeners() -> None:
    observers = Observers()
    with observers.including(_Failing()):
        assert [name for name in HOOKS if getattr(observers, name)] == ["granted", "step_begins"]
    assert not any(getattr(observers, name) for name in HOOKS)


@simulated(seeds=1)
async def test_nothing_is_made_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request with all that can happen to it, and not one event object."""

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("an event was made, and nobody listens")

    for kind in vars(events).values():
        if isinstance(kind, type) and hasattr(kind, "__dataclass_fields__"):
            monkeypatch.setattr(kind, "__init__", refuse)
    model = FaultyModel(Faults(raise_on={CULPRIT}), slots=1, context=256, num_layers=2)
    executor = SimulatedExecutor(model, lambda rows: 0.001, SimulatedDrafter(model, accuracy=0.8))
    config = EngineConfig(slots=1, queue=1, chunk_tokens=8, speculate=Proposer.DRAFT)
    async with open_engine(executor, stand_in(model), config) as engine, trio.open_nursery() as nursery:
        for name, tokens in {"a": prompt(9), "b": [*prompt(9), CULPRIT], "c": prompt(9)}.items():
            nursery.start_soon(partial(_read, engine, ask(name, tokens), hangs_up=name == "a"))
    manager = engine.statistics().manager
    assert manager.steps > 0
    assert manager.failed_steps > 0
    assert manager.cancels["client_disconnect"] == 1


async def _read(engine: Engine, asked: GenerationRequest, *, hangs_up: bool) -> None:
    """Read events up to the last, or hang up after the first."""
    with suppress(QueueFull), trio.CancelScope() as connection:
        async with engine.open_request(asked) as request:
            async for _ in request:
                if hangs_up:
                    connection.cancel()
