"""Bad edits of a cluster's workers: where an output begins when it goes on elsewhere."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MARK, OUTPUT = "web/cluster/translation/output_mark.py", "actors/generating/output.py"
UNIT = "tests/unit/web/cluster"

MUTANTS = (
    Mutant(
        "an output that goes on elsewhere is one token shorter than it was",
        MARK,
        "len(plain) - position\n",
        "len(plain) - position - 1\n",
        (f"{UNIT}/translation/test_output_mark.py",),
    ),
    Mutant(
        "an output is marked again where it goes on",
        "web/cluster/translation/chunks.py",
        "        self._has_begun = emitted > 0\n",
        "        self._has_begun = False\n",
        (f"{UNIT}/translation/test_chunks.py",),
    ),
    Mutant(
        "penalties forget what was made elsewhere",
        OUTPUT,
        "            generated=self._emitted + len(self),\n",
        "            generated=len(self),\n",
        ("tests/unit/actors/generating/test_output.py",),
    ),
)
