"""Bad edits of the manager: its queue, its grants, its plans, who may change things, and what it does after a fault."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "the mailbox is not drained while anyone drafts (seed 3)",
        "actors/manager/slot_manager.py",
        "        for on_slots in self._mailbox.take_for_slots():\n",
        '        drafts = any(record.state == "draft" for record in self.holds)\n'
        "        for on_slots in () if drafts else self._mailbox.take_for_slots():\n",
    ),
    Mutant(
        "the mailbox is not drained after KV was moved",
        "actors/manager/slot_manager.py",
        "            self._drain()\n            self._admit()  # a slot",
        "            self._admit()  # a slot",
    ),
    Mutant(
        "a slot that came free while KV was moved waits for the next step",
        "actors/manager/slot_manager.py",
        "            self._admit()  # a slot that came free while KV was moved does not wait for this step\n",
        "",
        (
            "tests/scenarios/kv/test_restore.py::test_a_slot_that_comes_free_while_kv_is_moved_is_granted_before_the_next_step",
        ),
    ),
    Mutant(
        "release before the step in flight ends",
        "actors/manager/slot_manager.py",
        "            self._dispatch.apply_to_queue(command)\n        self._admit()\n",
        "            self._dispatch.apply_to_queue(command)\n        self._drain()\n        self._admit()\n",
    ),
    Mutant(
        "a cancel is ignored while queued",
        "actors/manager/handle.py",
        "        return await ticket.granted.wait(ticket.note_cancel)\n",
        "        with trio.CancelScope(shield=True):\n"
        "            return await ticket.granted.wait(ticket.note_cancel)\n",
    ),
    Mutant(
        "a slot is granted to one that was cancelled",
        "actors/manager/admission.py",
        "if one.ticket.mark.at is None and one.life.state is State.QUEUED]",
        "if one.life.state is State.QUEUED]",
    ),
    Mutant(
        "the last to come is served first",
        "actors/manager/admission.py",
        "        alive = [one for one in self._queue.values() if",
        "        alive = [one for one in reversed(self._queue.values()) if",
    ),
    Mutant(
        "the receipt of one who was still queued is lost",
        "actors/manager/dispatch.py",
        "        if reason is not None:\n            receipt = ",
        "        if reason is not None and account.slot is not None:\n            receipt = ",
    ),
    Mutant(
        "KV from before a loss of the device is used",
        "actors/manager/recovery.py",
        "            self._table.invalidate(slot)\n",
        "            pass\n",
        ("tests/scenarios/engine/test_supervision.py",),
    ),
    Mutant(
        "who is queued is sent away when the device thread ends",
        "actors/manager/recovery.py",
        "        if queue_waits:\n",
        "        if False:\n",
    ),
    Mutant(
        "an audit that finds something has no consequence",
        "actors/kv/restore.py",
        "            if not await self._hold.audit(start, block, self._restored):\n                return False\n"
        "        return not self._hold.slot.suspect\n",
        "            await self._hold.audit(start, block, self._restored)\n        return True\n",
        ("tests/scenarios/kv/test_audit.py",),
    ),
    Mutant(
        "a restart forgives the blocks that were restored",
        "actors/manager/dispatch.py",
        "            self._cache.verdicts.strike(command.restored)\n",
        "",
        ("tests/scenarios/kv/test_unusable_kv.py", "tests/scenarios/kv/test_audit.py"),
    ),
    Mutant(
        "what was cancelled inside the step is committed",
        "actors/manager/settlement.py",
        "        elif result.computed:\n",
        "        else:\n",
    ),
    Mutant(
        "lengths are not trimmed after a rejection",
        "actors/manager/settlement.py",
        "segment.token_ids[: len(segment.token_ids) - (drafted - accepted)]",
        "segment.token_ids",
    ),
    Mutant(
        "rejected drafts count as kept",
        "actors/manager/settlement.py",
        "ledger.note_committed(segment.start, len(rows), drafted, accepted)",
        "ledger.note_committed(segment.start, len(segment.token_ids), drafted, accepted)",
    ),
    Mutant(
        "who was in a step that raised is not tried alone",
        "actors/manager/settlement.py",
        "            planned.record.run_alone()\n",
        '            self._fail(planned, "the device failed")\n',
    ),
    Mutant(
        "a slot over which a step failed goes on being used",
        "actors/manager/settlement.py",
        "        else:\n            self.invalidate(planned.record)\n        planned",
        "        planned",
    ),
    Mutant(
        "an end inside a run of accepted drafts keeps the rest",
        "actors/manager/dispatch.py",
        "                self._table.trim(hold.slot, min(length, hold.length))\n",
        "                pass\n",
        ("tests/scenarios/speculation/test_drafting.py",),
    ),
    Mutant(
        "KV is written over before it is saved",
        "actors/manager/step_planner.py",
        " or self._cache.waiting.any_of(record.slot.id):\n",
        ":\n",
    ),
    Mutant(
        "the shortest prompts take all of a step's rows, and the oldest starves",
        "actors/manager/planner.py",
        "shares[0] = min(wanted[0], (budget + 1) // 2)",
        "shares[0] = 0",
    ),
    Mutant(
        "an actor restarts its hold in its own task",
        "actors/core/hold.py",
        "        await self._ask(command, command.reply)\n",
        "        self.ticket.manager._table.invalidate(self.slot)\n",
        ("tests/scenarios/kv/test_unusable_kv.py",),
    ),
    Mutant(
        "anybody may change a slot",
        "actors/core/slots.py",
        "        self.owner.check()\n        if slot.id in self._in_flight:\n",
        "        if slot.id in self._in_flight:\n",
        ("tests/scenarios/engine/test_ownership.py",),
    ),
    Mutant(
        "a slot may change while a step that names it runs",
        "actors/core/slots.py",
        "        if slot.id in self._in_flight:\n",
        "        if False:\n",
        ("tests/scenarios/engine/test_ownership.py",),
    ),
    Mutant(
        "what the manager owns is not lent while the device is busy",
        "actors/manager/device.py",
        "        return self._table.owner.lend(self._clerk)\n",
        '        return __import__("contextlib").nullcontext()\n',
        ("tests/scenarios/engine/test_ownership.py",),
    ),
)
