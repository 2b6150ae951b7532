"""Bad edits of the arena of KV: who is given which place, what is reserved, what is copied when a sequence moves."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

ARENA, EXTENTS, ROOM = "runtime/kv/arena.py", "actors/core/places/extents.py", "actors/kv/capacity.py"
UNIT = "tests/unit/runtime/kv/test_arena.py"
PLACES = "tests/unit/actors/core/places/test_extents.py"
SCENARIOS = "tests/scenarios/arena"
MOVING = f"{SCENARIOS}/test_moving.py"

MUTANTS = (
    Mutant(
        "an extent is as long as was wanted, whoever follows",
        ARENA,
        "        return Extent(gap.first, min(gap.capacity, wanted))\n",
        "        return Extent(gap.first, wanted)\n",
        (UNIT,),
    ),
    Mutant(
        "an extent grows over the one behind it",
        ARENA,
        "min(wanted, min(behind, default=self.positions) - extent.first)",
        "min(wanted, self.positions - extent.first)",
        (UNIT,),
    ),
    Mutant(
        "the place that a sequence is moved to is free to others until it is there",
        ARENA,
        "                claims += (_Claim(one.first, one.end, owner) for one in (extent, target))\n",
        "                claims.append(_Claim(extent.first, extent.end, owner))\n",
        (UNIT,),
    ),
    Mutant(
        "the place that a sequence leaves is free before all of it was copied",
        ARENA,
        "                claims += (_Claim(one.first, one.end, owner) for one in (extent, target))\n",
        "                claims.append(_Claim(target.first, target.end, owner))\n",
        (UNIT,),
    ),
    Mutant(
        "a move copies a row less",
        EXTENTS,
        "relocation.target.first, max(record.used, kept))",
        "relocation.target.first, max(record.used, kept) - 1)",
        (PLACES,),
    ),
    Mutant(
        "what goes up is copied from its first row on",
        EXTENTS,
        "            first = done if self.target < self.source else self.rows - done - rows\n",
        "            first = done\n",
        (PLACES,),
    ),
    Mutant(
        "a piece is copied onto rows that are still to be copied",
        EXTENTS,
        "            rows = min(left, longest)\n",
        "            rows = left\n",
        (PLACES,),
    ),
    Mutant(
        "a piece that could not be copied counts as copied",
        ROOM,
        "                return self._extents.note_failed()\n",
        "                self._extents.note_relocated(piece)\n                return None\n",
        (SCENARIOS,),
    ),
    Mutant(
        "what lies behind a piece that was not moved is moved all the same",
        "runtime/step/executor.py",
        "        if is_piece and has_failed:\n",
        "        if False:\n",
        (SCENARIOS,),
    ),
    Mutant(
        "a sequence is read at the place that it has left",
        "actors/scheduling/step_planner.py",
        "            origin=record.slot.origin,\n",
        "            origin=record.__dict__.setdefault('first_origin', record.slot.origin),\n",
        (SCENARIOS,),
    ),
    Mutant(
        "a sequence has rows in a step while it is on its way",
        "actors/scheduling/step_planner.py",
        "        if self._table.extents.is_relocating(record.slot):\n            return None\n",
        "",
        (SCENARIOS,),
    ),
    Mutant(
        "a move leaves behind what is still to be copied out of its slot",
        ROOM,
        "            self._extents.begin_relocation(relocation, self._kept(relocation.owner), wanted_by=record.slot)\n",
        "            self._extents.begin_relocation(relocation, 0, wanted_by=record.slot)\n",
        (SCENARIOS,),
    ),
    Mutant(
        "room is free before what lies there is copied out",
        ROOM,
        "        self._extents.fit(slot, self._kept(slot.id))\n",
        "        self._extents.fit(slot, 0)\n",
        (SCENARIOS,),
    ),
    Mutant(
        "a sequence without KV has been moved, and nobody looks again who wants room",
        ROOM,
        "                if self._extents.moving is not None:\n                    break\n",
        "                break\n",
        ("tests/unit/actors/kv/test_capacity.py",),
    ),
    Mutant(
        "nobody is told that what waited in wanted room is kept already",
        "actors/kv/transfers.py",
        "            return len(self._cache.waiting) < waiting  # whose room may be what somebody waits for\n",
        "            return False\n",
        (f"{SCENARIOS}/test_arena.py",),
    ),
    Mutant(
        "room that a release has given back is given back again, from whoever has it",
        EXTENTS,
        "        if record.capacity and not self.is_relocating(record):\n"
        "            reserved = 0 if record.owner is None else record.reserved\n",
        "        if record.capacity:\n            reserved = 0 if record.owner is None else record.reserved\n",
        (PLACES,),
    ),
    Mutant(
        "a reservation counts only as far as there is room for it already",
        EXTENTS,
        "        return sum(record.reserved for record in self._records if record.owner is not None)\n",
        "        return sum(record.capacity for record in self._records if record.owner is not None)\n",
        (PLACES,),
    ),
    Mutant(
        "rows go into a step before their slot has room for them",
        "actors/scheduling/step_planner.py",
        "        return work if self._start(record, work) + len(work.token_ids) <= record.slot.capacity else None\n",
        "        return work\n",
        (SCENARIOS,),
    ),
    Mutant(
        "the drafter's rows do not count as used",
        "actors/core/places/record.py",
        "        return max(len(self.tokens), self.staged, self.draft_length)\n",
        "        return max(len(self.tokens), self.staged)\n",
        (SCENARIOS,),
    ),
    Mutant(
        "a prefix is copied from a sequence that is on its way",
        "actors/kv/transfer_planner.py",
        "        if self._table.extents.is_relocating(source):\n            return None\n",
        "",
        (f"{MOVING}::test_its_prefix_is_not_copied",),
    ),
    Mutant(
        "blocks are copied out of a sequence that is on its way",
        "actors/kv/transfers.py",
        "if moving is None or place.id != moving.slot}",
        "if moving is None or place.id >= 0}",
        (f"{MOVING}::test_blocks_are_not_copied_out_of_it",),
    ),
    Mutant(
        "rows that are staged do not count as used",
        "actors/core/places/record.py",
        "        return max(len(self.tokens), self.staged, self.draft_length)\n",
        "        return max(len(self.tokens), self.draft_length)\n",
        (f"{MOVING}::test_what_is_restored_of_it_goes_with_it",),
    ),
    Mutant(
        "who comes later takes the place that is being made for the first",
        ROOM,
        "            if not self._give(record, anywhere=first is None):\n",
        "            if not self._give(record):\n",
        (f"{MOVING}::test_who_comes_later_takes_no_place_before_whom_it_is_moved_for",),
    ),
    Mutant(
        "a sequence waits for a command to be moved where no step can run before",
        "actors/manager/slot_manager.py",
        "        return transferred or self.table.extents.moving is not None",
        "        return transferred",
        (f"{MOVING}::test_it_is_moved_at_once_where_no_step_can_run_before",),
    ),
    Mutant(
        "the drafter's KV stays where it was",
        "runtime/step/executor.py",
        "    if drafter is not None and isinstance(transfer, Relocate):\n        drafter.transfer(transfer)\n",
        "",
        (SCENARIOS,),
    ),
)
