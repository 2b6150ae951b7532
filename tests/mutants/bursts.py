"""Bad edits of bursts: steps that follow one another on the device."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "a burst goes on though a command has come",
        "runtime/step/burst.py",
        " or not burst.may_go_on():",
        ":",
    ),
    Mutant(
        "a burst goes on behind a token that ends an output",
        "runtime/step/burst.py",
        " or result.tokens[-1].token_id in segment.sample.end_ids",
        "",
    ),
    Mutant(
        "a burst goes on with a generation that was cancelled in it",
        "runtime/step/burst.py",
        "    return not result.tokens or segment.mark.at is not None or ",
        "    return not result.tokens or ",
        ("tests/unit/runtime/step/test_burst.py",),
    ),
    Mutant(
        "each token of a burst is drawn as the first one",
        "runtime/step/burst.py",
        "sample=segment.sample.after(drawn))",
        "sample=segment.sample)",
        ("tests/unit/runtime/step/test_burst.py",),
    ),
    Mutant(
        "a cancel in a burst takes what was drawn before it",
        "runtime/step/burst.py",
        "        tokens=before.tokens + last.tokens,\n",
        "        computed=last.computed,\n        tokens=before.tokens + last.tokens,\n",
        ("tests/unit/runtime/step/test_burst.py",),
    ),
    Mutant(
        "rows that a burst has read are not counted as computed",
        "runtime/step/burst.py",
        "        rows=before.rows + last.rows,\n",
        "",
    ),
    Mutant(
        "tokens that a burst has read are not committed",
        "actors/manager/settlement.py",
        "            *(token.token_id for token in result.tokens[:-1]),\n",
        "            *(token.token_id for token in result.tokens[:-1] if drafted),\n",
    ),
    Mutant(
        "a burst goes beyond the room of a slot",
        "actors/manager/step_planner.py",
        "        return min(self.work.most_tokens, self.record.slot.capacity - self.segment.start)\n",
        "        return self.work.most_tokens\n",
    ),
    Mutant(
        "a burst draws without the masks of a grammar",
        "actors/generating/output.py",
        "        return 1 if self.masks() else self.room\n",
        "        return self.room\n",
    ),
    Mutant(
        "rings are not told how far a burst may write",
        "actors/manager/device.py",
        "segment.end + further)",
        "segment.end)",
    ),
    Mutant(
        "a burst keeps waiting who has rows that had no room in its step",
        "actors/manager/bursts.py",
        "        if sum(record.pending is not None for record in holds) != len(step):\n            return None\n",
        "",
        ("tests/scenarios/bursts/test_bursts.py",),
    ),
)
