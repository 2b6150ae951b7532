"""Bad edits of the states of recurrent layers: who names which buffer, and for how many tokens."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

RECORD, STATES, POOL = (f"actors/core/places/{name}.py" for name in ("record", "states", "state_pool"))
STEP, SETTLEMENT, TABLE = "runtime/step/step.py", "actors/manager/settlement.py", "actors/core/slots.py"
PLANNER, COPY, BURST = "actors/scheduling/step_planner.py", "actors/kv/transfer_planner.py", "runtime/step/burst.py"
LOADS = "actors/kv/state_loads.py"
TIERS, WAITING, KEPT = "actors/kv/tiers.py", "actors/kv/waiting_blocks.py", "actors/kv/prefix_cache.py"
SCENARIOS = ("tests/scenarios/kv/test_states.py",)
IN_TIERS = ("tests/scenarios/kv/test_states_in_tiers.py",)
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
        RECORD,
        "if self.owner is None or length != len(self.tokens):\n",
        "if self.tokens:\n",
        UNIT,
    ),
    Mutant(
        "the newest snapshot makes way first",
        STATES,
        "        record, length, buffer = min(self._snapshots(), key=cost)\n",
        "        *_, (record, length, buffer) = self._snapshots()\n",
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
    Mutant(
        "blocks are restored that no state is behind",
        TIERS,
        "        return self.last_state(keys, first, reached) if self.has_states else reached\n",
        "        return reached\n",
        IN_TIERS,
    ),
    Mutant(
        "a sequence goes on from blocks alone",
        LOADS,
        "        if not goes_on or (state is None if command.is_last else not blocks):\n",
        "        if not goes_on or not blocks:\n",
        IN_TIERS,
    ),
    Mutant(
        "a state is kept under the name of the block before its own",
        WAITING,
        "        resident, parent = self.resident, self.key((length - 1) // BLOCK_TOKENS)\n",
        "        resident, parent = self.resident, self.key(max(0, (length - 1) // BLOCK_TOKENS - 1))\n",
        IN_TIERS,
    ),
    Mutant(
        "a state is copied out of a buffer that is another's by then",
        KEPT,
        "            return block.buffer is not None and not has_state(slot, block)\n",
        "            return False\n",
        IN_TIERS,
    ),
    Mutant(
        "a grant forgets the states that it displaces",
        TABLE,
        "        if self.states is not None:\n            slot.displace_states(usable)\n",
        "",
        IN_TIERS,
    ),
    Mutant(
        "what was displaced keeps its buffers for good",
        "actors/kv/transfers.py",
        "            if place.displaced and not self._cache.waiting.any_of(place.id):\n",
        "            if place.displaced and not place.states and not self._cache.waiting.any_of(place.id):\n",
        IN_TIERS,
    ),
    Mutant(
        "two states are loaded into one buffer",
        LOADS,
        "            (buffer,) = self._states.lend_buffers(1, trio.current_time())\n",
        "            self._states.begin()\n            (buffer,) = self._states.lend_buffers(1, trio.current_time())\n",
        IN_TIERS,
    ),
    Mutant(
        "a state that failed in use is not dropped with the blocks before it",
        LOADS,
        "        trial = keys if state is None else (*keys, state.key)\n",
        "        trial = keys\n",
        IN_TIERS,
    ),
    Mutant(
        "an audit goes on from the very state that nobody computed again",
        LOADS,
        "        for count in range(last - 1, max(",
        "        for count in range(last, max(",
        IN_TIERS,
    ),
    Mutant(
        "the state of a preempted sequence is not kept for it",
        KEPT,
        "            states = [end, *(length for length in states if length != end)]\n"
        "            keys.append(state_key(keys[-1]))\n",
        "            states = [length for length in states if length != end]\n",
        IN_TIERS,
    ),
    Mutant(
        "the states of an answer have no names",
        RECORD,
        "tuple(one for one in (*self.passing, *new) if one % BLOCK_TOKENS) if passing",
        "(*self.passing, *new) if passing",
        IN_TIERS,
    ),
    Mutant(
        "a burst writes over the state that it has left behind a block",
        PLANNER,
        "BLOCK_TOKENS - (self.segment.end - 1) % BLOCK_TOKENS) if self.segment.next_states else most\n",
        "BLOCK_TOKENS) if self.segment.next_states else most\n",
        IN_TIERS,
    ),
    Mutant(
        "a chunk ends where no state has a name",
        PLANNER,
        "        return aligned if 2 * aligned > share else share\n",
        "        return share\n",
        IN_TIERS,
    ),
    Mutant(
        "a prompt takes more steps than without states",
        PLANNER,
        "(missing := BLOCK_TOKENS - beyond) <= min(beyond, share // 8)",
        "(missing := BLOCK_TOKENS - beyond) <= 0",
        IN_TIERS,
    ),
)
