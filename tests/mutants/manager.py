"""Bad edits of the manager: its queue, its grants, its plans and what it does after a fault."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "the mailbox is not drained while anyone drafts (seed 3)",
        "actors/manager/slot_manager.py",
        "        while self._mailbox:\n            mail",
        '        while self._mailbox and not any(one.phase == "draft" for one in self._leases.values()):\n'
        "            mail",
    ),
    Mutant(
        "the mailbox is not drained after KV was moved",
        "actors/manager/slot_manager.py",
        "        self._drain()\n        self._admit()  # a slot",
        "        self._admit()  # a slot",
    ),
    Mutant(
        "a slot that came free while KV was moved waits for the next step",
        "actors/manager/slot_manager.py",
        "        self._admit()  # a slot that came free while KV was moved does not wait for this step\n",
        "",
        (
            "tests/scenarios/kv/test_restore.py::test_a_slot_that_comes_free_while_kv_is_moved_is_granted_before_the_next_step",
        ),
    ),
    Mutant(
        "release before the step in flight ends",
        "actors/manager/slot_manager.py",
        "        self.post(lease)\n        with trio",
        "        self._release(lease)\n        with trio",
    ),
    Mutant(
        "a cancel is ignored while queued",
        "actors/manager/slot_manager.py",
        "            await lease.grant.wait(lease.note_cancel)\n",
        "            with trio.CancelScope(shield=True):\n                await lease.grant.wait(lease.note_cancel)\n",
    ),
    Mutant(
        "a slot is granted to one that was cancelled",
        "actors/manager/slot_manager.py",
        "if lease.mark.at is None and lease.lost is None]:",
        "]:",
    ),
    Mutant(
        "the last to come is served first",
        "actors/manager/slot_manager.py",
        "for lease in [lease for lease in self._queue if",
        "for lease in [lease for lease in reversed(self._queue) if",
    ),
    Mutant(
        "the receipt of one who was still queued is lost",
        "actors/manager/slot_manager.py",
        "        if lease.reason is not None:\n            receipt = ",
        "        if lease.reason is not None and slot_freed_at is not None:\n            receipt = ",
    ),
    Mutant(
        "KV from before a loss of the device is used",
        "actors/manager/slot_manager.py",
        "            self.table.invalidate(slot)\n        if not",
        "            pass\n        if not",
    ),
    Mutant(
        "who is queued is sent away when the device thread ends",
        "actors/manager/slot_manager.py",
        "        if not isinstance(loss, DeviceThreadEnded):",
        "        if True:",
    ),
    Mutant(
        "an audit that finds something has no consequence",
        "actors/manager/slot_manager.py",
        "        return await audit(lease, self.table, self.cache)\n",
        "        await audit(lease, self.table, self.cache)\n        return True\n",
        ("tests/scenarios/kv/test_audit.py",),
    ),
    Mutant(
        "a restart forgives the blocks that were restored",
        "actors/manager/slot_manager.py",
        "        self.cache.verdicts.strike(lease.restored)\n        self._steps",
        "        self._steps",
        ("tests/scenarios/kv/test_unusable_kv.py", "tests/scenarios/kv/test_audit.py"),
    ),
    Mutant(
        "what was cancelled inside the step is committed",
        "actors/manager/step_runner.py",
        "        elif result.computed:\n",
        "        else:\n",
    ),
    Mutant(
        "lengths are not trimmed after a rejection",
        "actors/manager/step_runner.py",
        "segment.token_ids[: len(segment.token_ids) - (drafted - accepted)]",
        "segment.token_ids",
    ),
    Mutant(
        "rejected drafts count as kept",
        "actors/manager/step_runner.py",
        "        lease.committed += len(rows)\n",
        "        lease.committed += len(segment.token_ids)\n",
    ),
    Mutant(
        "who was in a step that raised is not tried alone",
        "actors/manager/step_runner.py",
        "            planned.work.suspect = True\n",
        '            self._fail(planned, "the device failed")\n',
    ),
    Mutant(
        "a slot over which a step failed goes on being used",
        "actors/manager/step_runner.py",
        "        else:\n            self.invalidate(lease)\n        planned",
        "        planned",
    ),
    Mutant(
        "an end inside a run of accepted drafts keeps the rest",
        "actors/manager/slot_manager.py",
        "            self.table.trim(lease.slot, min(lease.keep, lease.length))\n",
        "            pass\n",
        ("tests/scenarios/speculation/test_drafting.py",),
    ),
    Mutant(
        "KV is written over before it is saved",
        "actors/manager/step_runner.py",
        " or self._cache.waiting.any_of(lease.slot.id):\n",
        ":\n",
    ),
    Mutant(
        "the shortest prompts take all of a step's rows, and the oldest starves",
        "actors/manager/planner.py",
        "shares[0] = min(wanted[0], (budget + 1) // 2)",
        "shares[0] = 0",
    ),
)
