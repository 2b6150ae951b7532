"""Bad edits of what several ranks agree on in a step."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

STEP = "runtime/devices/parallel/shared_step.py"
TESTS = ("tests/unit/runtime/devices/parallel/test_shared_step.py",)

MUTANTS = (
    Mutant(
        "rank 0 drops by its own look at a mark",
        STEP,
        "            if is_cancelled:\n",
        "            if is_cancelled or (self._leads and is_asked(segment)):\n",
        TESTS,
    ),
    Mutant(
        "a rank that fails leaves the others waiting",
        STEP,
        "        if self.has_ended:\n            return\n",
        "        return\n",
        TESTS,
    ),
    Mutant(
        "marks ride in the last layer's sums only",
        STEP,
        "float(self._leads and is_asked(segment))",
        "float(self._leads and self._layers_left == 1 and is_asked(segment))",
        TESTS,
    ),
)
