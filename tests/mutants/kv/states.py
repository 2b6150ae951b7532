"""Bad edits of the states of recurrent layers: who names which buffer, and for how many tokens."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

RECORD, STATES, POOL = (f"actors/core/places/{name}.py" for name in ("record", "states", "state_pool"))
STEP, SETTLEMENT, TABLE = "runtime/step/step.py", "actors/manager/settlement.py", "actors/core/slots.py"
PLANNER, COPY, BURST = "actors/scheduling/step_planner.py", "actors/kv/transfer_planner.py", "runtime/step/burst.py"
SCENARIOS = ("tests/scenarios/kv/test_states.py",)
UNIT = ("tests/unit/actors/core/places/test_states.py", "tests/unit/actors/core/places/test_state_pool.py")

MUTANTS = (
    Mutant(
        "a step goes on from the oldest state, whatever its length",
        STATES,
        "            state=record.states.get(segment.start),\n",
        "            state=min(record.states.items(), default=(0, None))[1],\n",
        SCENARIOS,
    ),
    Mutant(
        "a step goes on from a sequence's beginning, with the KV of its tokens",
        STATES,
        "            state=record.states.get(segment.start),\n",
        "            state=None,\n",
        SCENARIOS,
    ),
    Mutant(
        "a slot goes on from any length, and is not computed from the state before it",
        RECORD,
        "            length = max((one for one in self.states if one <= length), default=0)\n",
        "            length = length if self.states else 0\n",
        SCENARIOS,
    ),
    Mutant(
        "a slot goes on from a state behind what it shares with a prompt",
        RECORD,
        "            length = max((one for one in self.states if one <= length), default=0)\n",
        "            length = max((one for one in self.states if one <= length + 1), default=0)\n",
        SCENARIOS,
    ),
    Mutant(
        "the state of a rejected draft is kept",
        STEP,
        "            return {self.start + end: buffer for end, buffer in self.next_states if end <= rows}\n",
        "            return {self.start + rows: self.next_states[-1][1]} if self.next_states else {}\n",
        SCENARIOS,
    ),
    Mutant(
        "the states of drafts are wanted one row too soon",
        PLANNER,
        "            return range(rows - len(segment.drafts), rows + 1)\n",
        "            return range(max(1, rows - len(segment.drafts) - 1), rows)\n",
        SCENARIOS,
    ),
    Mutant(
        "a state is noted under one token more than it is of",
        SETTLEMENT,
        "            left = segment.states_after(len(rows), result.rows, goes_on=goes_on)\n",
        "            left = {end + (end < len(slot.tokens)): buffer for end, buffer in "
        "segment.states_after(len(rows), result.rows, goes_on=goes_on).items()}\n",
        SCENARIOS,
    ),
    Mutant(
        "a state is named that was not committed",
        SETTLEMENT,
        "        elif result.computed:\n",
        "        elif result.computed or planned.segment.next_states:\n",
        SCENARIOS,
    ),
    Mutant(
        "what a step writes may be what another sequence goes on from",
        POOL,
        "        if not self._names[buffer]:\n            del self._free[buffer]\n",
        "        if self._names[buffer]:\n            self._free.pop(buffer, None)\n",
        SCENARIOS,
    ),
    Mutant(
        "a state that two slots name is free when the first has let it go",
        POOL,
        "        if not self._names[buffer]:\n            self._free[buffer] = None\n",
        "        self._free[buffer] = None\n",
        SCENARIOS,
    ),
    Mutant(
        "a copy does not count as a name of its source's state",
        RECORD,
        "            self.pool.name(buffer)\n",
        "            if passing or buffer in self.pool.free:\n                self.pool.name(buffer)\n",
        SCENARIOS,
    ),
    Mutant(
        "a copy has its source's newest state",
        COPY,
        "{command.end: source.states[command.end]} if",
        "{command.end: source.states[max(source.states)]} if",
        SCENARIOS,
    ),
    Mutant(
        "a slot that is trimmed keeps its later states",
        TABLE,
        "        record.drop_states([one for one in record.states if one > length])\n",
        "",
        SCENARIOS,
    ),
    Mutant(
        "invalidation forgets the tokens, and not the states",
        TABLE,
        "        record.drop_states([one for one in record.states if one > length])\n",
        "        record.drop_states([one for one in record.states if one > length > 0])\n",
        SCENARIOS,
    ),
    Mutant(
        "a name is not taken back",
        RECORD,
        "            self.pool.drop(self.states.pop(length))\n",
        "            self.states.pop(length)\n",
        SCENARIOS,
    ),
    Mutant(
        "two sequences of a step write the same buffers",
        STATES,
        "        self._lent += wanted\n",
        "",
        SCENARIOS,
    ),
    Mutant(
        "what two places exchange leaves the states behind",
        RECORD,
        '_ITS_OWN = ("id", "rings", "arena", "pool", "owner", "reserved")\n',
        '_ITS_OWN = ("id", "rings", "arena", "pool", "owner", "reserved", "states")\n',
        UNIT,
    ),
    Mutant(
        "what a slot goes on from makes way like any snapshot",
        STATES,
        "if record.owner is None or length != len(record.tokens):\n",
        "if record.tokens:\n",
        UNIT,
    ),
    Mutant(
        "the newest snapshot makes way first",
        STATES,
        "        record, length = min(self._snapshots(), key=cost)\n",
        "        *_, (record, length) = self._snapshots()\n",
        UNIT,
    ),
    Mutant(
        "the buffer that is written and the next one change places",
        STEP,
        "            spare_states=(*ring[2:], *ring[:1]),\n",
        "            spare_states=(*ring[:1], *ring[2:]),\n",
        SCENARIOS,
    ),
    Mutant(
        "of a burst the state is kept that its first step left",
        STEP,
        "self.start + end: ring[(end - 1) % len(ring)] for",
        "self.start + end: ring[0] for",
        SCENARIOS,
    ),
    Mutant(
        "what came before a fault in a burst is lost, and its state written over",
        BURST,
        "            if not self._results:\n                raise\n",
        "            raise\n",
        SCENARIOS,
    ),
    Mutant(
        "nobody leaves a state where others wait for what both share",
        PLANNER,
        "(prompt - 1) // BLOCK_TOKENS * BLOCK_TOKENS, prompt - 1, max(lengths, default=0)}",
        "(prompt - 1) // BLOCK_TOKENS * BLOCK_TOKENS, prompt - 1}",
        SCENARIOS,
    ),
    Mutant(
        "the state behind a prompt goes with its answer",
        SETTLEMENT,
        "passing=planned.work.phase is not State.PREFILL)",
        "passing=True)",
        SCENARIOS,
    ),
)
