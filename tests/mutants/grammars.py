"""Bad edits of what holds outputs to their grammars."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "what a matcher has looked ahead at is not taken back",
        "runtime/grammar/matcher.py",
        "                own.rollback(len(self._ahead) - common)\n",
        "",
    ),
    Mutant(
        "a draft is drawn under the mask of the token before it",
        "runtime/sampling/tokens.py",
        "            masks=self.masks[len(token_ids) :],\n",
        "            masks=self.masks,\n",
    ),
    Mutant(
        "a draft that was looked up is verified whatever its grammar says",
        "actors/generating/drafting.py",
        "            found = found[: output.constraint.count_valid(found)]\n",
        "            output.constraint.count_valid(found)\n",
    ),
    Mutant(
        "an output goes on behind the end of its grammar",
        "actors/generating/output.py",
        "        if is_complete:\n            return FinishReason.STOP\n",
        "",
    ),
    Mutant(
        "masks stay what they were before the last token",
        "actors/generating/constraint.py",
        "        self._masks.clear()\n",
        "",
    ),
    Mutant(
        "what is thought once more has a budget of its own",
        "runtime/grammar/budget.py",
        "        return _State(_Progress.BEFORE if self._asked.again else _Progress.BEHIND, left)\n",
        "        return _State(_Progress.BEFORE if self._asked.again else _Progress.BEHIND, self._asked.tokens)\n",
        ("tests/unit/runtime/grammar/test_budget.py",),
    ),
    Mutant(
        "a draft goes on with a thought that has to end",
        "runtime/grammar/budget.py",
        "            if state.closing and token_id != state.closing[0]:\n                break\n",
        "",
        ("tests/unit/runtime/grammar/test_budget.py",),
    ),
    Mutant(
        "a token drawn under a mask that failed is taken",
        "actors/generating/constraint.py",
        "            if mask.error is not None:\n",
        "            if mask.error is not None and not self._masks:\n",
        ("tests/unit/actors/generating/test_constraint.py",),
    ),
    Mutant(
        "who has to compute a mask itself goes on without it",
        "runtime/grammar/masks.py",
        "                    self._bits = compute()\n",
        "                    self._bits = compute()\n                    return None\n",
    ),
    Mutant(
        "a mask that is being computed is not waited for",
        "runtime/grammar/masks.py",
        "        with self._lock:\n",
        "        if self._lock.locked():\n            return None\n        with self._lock:\n",
        ("tests/unit/runtime/grammar/test_masks.py",),
    ),
    Mutant(
        "a grammar whose masks are slow has them computed behind the layers",
        "actors/generating/constraint.py",
        "                self._expected += NEWEST_SHARE * (min(mask.seconds, LONGEST) - self._expected)\n",
        "                self._expected -= NEWEST_SHARE * self._expected\n",
        ("tests/unit/actors/generating/test_constraint.py",),
    ),
    Mutant(
        "a mask beside one whose row is kept gets that row",
        "runtime/sampling/masks.py",
        "        rows = [next(looked_up) if row is None else row for row in kept]\n",
        "        rows = [next(looked_up, row) for row in kept]\n",
        ("tests/unit/runtime/sampling/test_masks.py",),
    ),
    Mutant(
        "a mask is put on the row before its own",
        "runtime/sampling/batch.py",
        "    masks = {row: spec.mask for row, spec in enumerate(specs) if spec.mask is not None}\n",
        "    masks = {row - 1: spec.mask for row, spec in enumerate(specs) if spec.mask is not None}\n",
        ("tests/unit/runtime/sampling/test_masks.py",),
    ),
)
