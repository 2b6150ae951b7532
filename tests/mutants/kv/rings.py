"""Bad edits of what is known of rings: which lengths a slot can go on from, and which blocks are whole."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "rows that a step writes and does not commit take nothing away from a ring",
        "actors/manager/device.py",
        "            self._table.note_written(self._table.slot(segment.slot), segment.end + further)\n",
        "            pass\n",
        ("tests/scenarios/kv/test_windows.py",),
    ),
    Mutant(
        "a slot whose KV was only staged is trimmed to a length that it does not have",
        "actors/core/slots.py",
        "        length = record.usable(min(length, len(record.tokens)))\n",
        "        length = record.usable(length)\n",
        ("tests/unit/actors/core/test_slots_rings.py",),
    ),
    Mutant(
        "a slot goes on from one position before what its ring has",
        "runtime/kv/rings.py",
        "        return written - self.slack - 1 if written",
        "        return written - self.slack - 2 if written",
        ("tests/scenarios/kv/test_windows.py",),
    ),
    Mutant(
        "a copy's source is not asked again whether its ring still has the end",
        "actors/kv/transfer_planner.py",
        "command.end == source.usable(source.branch_point(command.end))\n",
        "command.end == source.branch_point(command.end)\n",
        ("tests/scenarios/kv/test_windows.py",),
    ),
    Mutant(
        "a block is kept as whole when its ring has lost rows of it",
        "actors/core/slot_views.py",
        "        return block * BLOCK_TOKENS >= self.windows_from\n",
        "        return True\n",
        ("tests/scenarios/kv/test_windows.py",),
    ),
    Mutant(
        "a prefix is restored whose end is of blocks without windows",
        "actors/kv/transfer_planner.py",
        "        return filled if self._fills(record, filled, end) else None\n",
        "        return min(filled, record.length)\n",
        ("tests/scenarios/kv/test_windows.py",),
    ),
    Mutant(
        "what was restored can be trimmed to lengths whose windows were not",
        "actors/kv/transfer_planner.py",
        "        return rings.least_length_from(filled, end)\n",
        "        return rings.least_length(end)\n",
        ("tests/scenarios/kv/test_windows.py",),
    ),
    Mutant(
        "a step has more rows of a prompt than a ring bears",
        "actors/scheduling/step_planner.py",
        "            shares = [min(share, rings.max_rows) for share in shares]\n",
        "            pass\n",
        ("tests/scenarios/kv/test_windows.py",),
    ),
    Mutant(
        "a piece that brings no windows makes a prefix whole",
        "actors/kv/transfer_planner.py",
        "        if not command.is_last:\n            return None\n        if filled <= record.length:",
        "        if filled <= record.length:",
        ("tests/scenarios/kv/test_windows.py",),
    ),
    Mutant(
        "what is copied out of a slot may come after what is moved into it",
        "actors/kv/transfers.py",
        "        planned.sort(key=lambda one: one.record.length)\n",
        "        planned.sort(key=lambda one: -one.record.length)\n",
        (
            "tests/scenarios/kv/test_windows.py::test_what_is_copied_out_of_a_slot_goes_before_what_its_ring_loses_it_for",
        ),
    ),
)
