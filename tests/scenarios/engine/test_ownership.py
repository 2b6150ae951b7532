"""One task changes slots, the queue, holds and receipts: whoever else tries is stopped, and so is a change mid-step."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio

from actors.core.account import Account, Ledger
from actors.core.commands import Enqueue, Submit
from actors.core.events import Granted
from actors.core.hold import Ticket
from actors.core.holds import HoldRecord, Holds
from actors.core.life import Event, Life, State
from actors.core.observer import Observer, Observers
from actors.core.receipts import CancelReason
from actors.core.slot_views import Provenance
from actors.core.slots import SlotInFlight, SlotTable
from actors.kv.prefix_cache import empty_cache
from actors.kv.salvaged_tokens import SalvagedTokens
from actors.manager.admission import Admission
from actors.manager.receipt_log import ReceiptLog
from actors.preemption.preemption import Preemption
from actors.scheduling.costs import StepCosts
from runtime.common.ownership import NotTheOwner, TaskOwner
from runtime.sampling.params import SamplingParams
from runtime.sampling.tokens import SampleSpec
from runtime.step.step import SegmentResult
from tests.fakes.holds import ticket_of
from tests.fakes.simulation import ask, open_simulation, prompt, simulated
from tests.rows import every_row
from tests.scenarios.engine.together import STEP, same_time
from tests.sim.history import ROOT

TOKENS = list(range(80))
RESULT = SegmentResult(computed=True, last_kernel_at=1.0)
SAMPLE = SampleSpec(SamplingParams(), position=0, generated=0)


class World:
    """One of each thing that the manager owns, with a hold on slot 0."""

    def __init__(self, owner: TaskOwner) -> None:
        self.owner = owner
        self.table = SlotTable(2, 100, retained_places=1, root=ROOT, owner=owner)
        self.holds = Holds(owner)
        cache, observers = empty_cache(), Observers()
        preemption = Preemption(self.table, cache, self.holds, observers, is_on=True, now=lambda: 0.0)
        owned = self.table, cache, self.holds, preemption, observers
        self.admission = Admission(*owned, StepCosts(), limit=9, ageing=3.0)
        self.receipts = ReceiptLog(float, owner=owner)
        self.salvaged = SalvagedTokens(owner)
        ticket = ticket_of("held", TOKENS)
        slot = self.table.grant(ticket.key, ticket.prompt)
        assert slot is not None
        life = Life(owner)
        life.take(Event.GRANTED)
        self.slot = slot
        self.record = self.holds.add(ticket, slot, life)


def _waiting(world: World) -> Ticket:
    ticket = ticket_of("waits", TOKENS)
    world.admission.enqueue(Enqueue([ticket]))
    return ticket


def _asking(world: World) -> HoldRecord:
    world.record.ask(Submit(world.record.hold.ticket, State.PREFILL, TOKENS, SAMPLE))
    return world.record


def _preempted(world: World) -> HoldRecord:
    _asking(world).preempt(None)
    return world.record


def _write_receipt(world: World) -> None:
    ticket = ticket_of("cancelled", TOKENS)
    ticket.note_cancel()
    world.receipts.write(ticket, CancelReason.OPERATOR, Account())


# Each public method that changes something, and a call of it.
CHANGES: dict[type, dict[str, Callable[[World], object]]] = {
    SlotTable: {
        "grant": lambda world: world.table.grant(("other", 0), ticket_of("other", TOKENS).prompt),
        "release": lambda world: world.table.release(world.slot),
        "evict": lambda world: world.table.evict(world.table.slot(1)),
        "exchange": lambda world: world.table.exchange(world.table.slot(1), world.table.slot(2)),
        "keep_until": lambda world: world.table.keep_until(world.table.slot(1), 1.0),
        "commit": lambda world: world.table.commit(world.slot, TOKENS[:3]),
        "note_written": lambda world: world.table.note_written(world.slot, 1),
        "stage": lambda world: world.table.stage(world.slot, 1, Provenance()),
        "commit_transferred": lambda world: world.table.commit_transferred(world.slot, TOKENS[:3]),
        "trim": lambda world: world.table.trim(world.slot, 1),
        "invalidate": lambda world: world.table.invalidate(world.slot),
        "quarantine": lambda world: world.table.quarantine([b"a block"]),
        "commit_draft": lambda world: world.table.commit_draft(world.slot, 0, 1),
        "end_round": lambda world: world.table.end_round(world.slot, 0),
        "forget_draft": lambda world: world.table.forget_draft(world.slot),
    },
    Holds: {
        "add": lambda world: world.holds.add(ticket_of("another", TOKENS), world.slot, Life(world.owner)),
        "remove": lambda world: world.holds.remove(world.record),
        "put_back": lambda world: world.holds.put_back(world.record),
    },
    HoldRecord: {
        "happen": lambda world: world.record.happen(Event.READS),
        "ask": _asking,
        "clear_pending": lambda world: world.record.clear_pending(),
        "demote": lambda world: world.record.demote(),
        "run_alone": lambda world: world.record.run_alone(),
        "read_anew": lambda world: world.record.read_anew(),
        "follow": lambda world: world.record.follow([]),
        "follow_nobody": lambda world: world.record.follow_nobody(),
        "lose": lambda world: world.record.lose("the device is gone"),
        "close": lambda world: world.record.close(Event.CANCELLED, 1.0),
        "preempt": lambda world: _preempted(world),
        "go_on_in": lambda world: _preempted(world).go_on_in(world.slot, 1, 1.0),
        "account_without_slot": lambda world: world.record.account_without_slot(1.0),
    },
    Life: {"take": lambda world: Life(world.owner).take(Event.GRANTED)},
    Ledger: {
        "note_step": lambda world: world.record.ledger.note_step(RESULT, 1),
        "note_committed": lambda world: world.record.ledger.note_committed(0, 1, 0, 0),
        "note_transferred": lambda world: world.record.ledger.note_transferred(1),
        "note_overwritten": lambda world: world.record.ledger.note_overwritten(1),
        "note_invalidated": lambda world: world.record.ledger.note_invalidated(),
        "note_restart": lambda world: world.record.ledger.note_restart(),
        "note_preempted": lambda world: world.record.ledger.note_preempted(),
        "note_back": lambda world: world.record.ledger.note_back(1.0),
    },
    Admission: {
        "enqueue": _waiting,
        "withdraw": lambda world: world.admission.withdraw(_waiting(world)),
        "demote": lambda world: world.admission.demote(_waiting(world)),
        "admit": lambda world: world.admission.admit(),
        "preempt_for_waiting": lambda world: world.admission.preempt_for_waiting(),
        "wait_again": lambda world: world.admission.wait_again(_asking(world), None),
        "hold_back": lambda world: world.admission.hold_back(),
        "turn_away": lambda world: world.admission.turn_away("the device is gone"),
        "resume": lambda world: world.admission.resume(),
        "settle": lambda world: world.admission.settle(world.record.hold.ticket, Account()),
    },
    ReceiptLog: {
        "write": _write_receipt,
        "add": _write_receipt,
    },
    SalvagedTokens: {
        "leave": lambda world: world.salvaged.leave(world.slot.tokens, [(0, 1)]),
        "take": lambda world: world.salvaged.take(world.slot.tokens, 0, 1),
        "forget": lambda world: world.salvaged.forget(world.slot.tokens, 0, 1),
    },
}
# The others look; `in_flight` and `tell` change no slot.
LOOKS: dict[type, set[str]] = {
    SlotTable: {"in_flight", "tell"},
    Holds: {"get", "of", "shared_with", "check_integrity"},
    HoldRecord: {
        *(
            "state",
            "phase",
            "priority",
            "is_warm",
            "length",
            "pending",
            "submitted",
            "needed_capacity",
            "runs_alone",
            "life",
        ),
        *("reads_anew", "may_reuse", "has_leaders", "leaders", "led_by", "is_led", "loss", "shared_with"),
    },
    Life: {"state", "phase"},
    Ledger: {"cached", "committed", "computed_at", "close", "preemptions", "preempted_seconds"},
    Admission: {"tickets"},
    ReceiptLog: {"counts", "newest", "check_integrity"},
    SalvagedTokens: set(),
}
EACH_CHANGE = [(kind, name) for kind, changes in CHANGES.items() for name in changes]


@every_row("kind", CHANGES)
def test_each_public_method_is_known_to_change_something_or_nothing(kind: type) -> None:
    public = {name for name in vars(kind) if not name.startswith("_")}
    assert public == CHANGES[kind].keys() | LOOKS[kind], "say in this test whether it changes anything"


@every_row("kind, name", EACH_CHANGE)
async def test_a_change_by_another_task_than_the_owner_raises(kind: type, name: str) -> None:
    owner = TaskOwner()
    world, change = World(owner), CHANGES[kind][name]

    async def other() -> None:
        with pytest.raises(NotTheOwner):
            change(world)

    with owner.claim():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
        with pytest.raises(NotTheOwner):
            await trio.to_thread.run_sync(change, world)
        change(world)


@every_row("name", [name for name in CHANGES[SlotTable] if name not in ("grant", "quarantine")])
def test_a_slot_is_not_changed_while_a_step_names_it(name: str) -> None:
    world, change = World(TaskOwner()), CHANGES[SlotTable][name]
    with world.table.in_flight([0, 1]), pytest.raises(SlotInFlight, match=r"slot [01]"):
        change(world)
    change(world)


def test_another_slot_is_granted_while_a_step_runs() -> None:
    world = World(TaskOwner())
    with world.table.in_flight([0]):
        granted = world.table.grant(("other", 0), ticket_of("other", TOKENS).prompt)
    assert granted is world.table.slot(1)


class GrantTasks(Observer):
    """In which task each grant is made, and whether a step runs then."""

    def __init__(self) -> None:
        self.grants: list[tuple[str, str]] = []

    def granted(self, event: Granted) -> None:
        """Note it."""
        self.grants.append((event.request_id, trio.lowlevel.current_task().name))


@simulated()
async def test_while_the_device_is_busy_the_queue_server_grants_and_else_the_manager() -> None:
    watch = GrantTasks()
    async with open_simulation(slots=2, step_seconds=same_time) as sim, trio.open_nursery() as nursery:
        with sim.engine.observed_by(watch):
            nursery.start_soon(sim.client, ask("first", prompt(4), max_tokens=20))
            await trio.sleep(2.5 * STEP)
            second = sim.expect(ask("second", prompt(4, start=9), max_tokens=2))
            nursery.start_soon(sim.client, second.asked)
            await trio.sleep(0.2 * STEP)
            assert [request for request, _ in watch.grants] == ["first", "second"], "it waits for the step's end"
            await trio.sleep(2 * STEP)
        (_, manager), (_, queue_server) = watch.grants
        assert "run_manager" in manager
        assert "run_queue_server" in queue_server


@simulated()
async def test_one_who_leaves_the_queue_while_the_device_is_busy_has_his_receipt_at_once() -> None:
    async with open_simulation(slots=1, step_seconds=same_time) as sim, trio.open_nursery() as nursery:
        nursery.start_soon(sim.client, ask("first", prompt(4), max_tokens=20))
        await trio.sleep(2.5 * STEP)
        left = await sim.client(ask("queued", prompt(4, start=9)), hang_up_at=2.7 * STEP)
        assert trio.current_time() == pytest.approx(2.7 * STEP)
        assert left.receipt.phase == "queued"


@simulated()
async def test_the_test_s_own_task_may_not_change_a_slot_of_a_running_engine() -> None:
    async with open_simulation(slots=1) as sim:
        await sim.client(ask("first", prompt(4)))
        with pytest.raises(NotTheOwner):
            sim.manager.table.invalidate(sim.manager.table.slot(0))
