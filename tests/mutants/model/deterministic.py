"""Bad edits of what computes each row alike in any company."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

ROWS = ("tests/unit/runtime/nn/layers/test_native_layer_deterministic.py",)
BLOCKS = ("tests/unit/runtime/kv/test_blocks.py",)

MUTANTS = (
    Mutant(
        "many rows of a deterministic layer are left to PyTorch",
        "runtime/nn/layers/native_layer.py",
        "        if self._deterministic:\n",
        "        if self._deterministic and len(batch.ranges) > 1:\n",
        ROWS,
    ),
    Mutant(
        "a piece of a segment lies where the segment begins",
        "runtime/step/step.py",
        "            self, start=self.start + first, token_ids",
        "            self, start=self.start, token_ids",
        ROWS,
    ),
    Mutant(
        "a piece of a step's rows takes the segments' rows from their beginning",
        "runtime/nn/layers/batch.py",
        "segment.piece(there.start - own.start, there.stop - own.start)",
        "segment.piece(0, len(there))",
        ROWS,
    ),
    Mutant(
        "many rows of a deterministic head are PyTorch's",
        "runtime/nn/matrices/native.py",
        "        if self._deterministic and x.shape[0]:\n",
        "        if self._deterministic and not x.shape[0]:\n",
        ROWS,
    ),
    Mutant(
        "a deterministic model takes KV that another has computed",
        "runtime/kv/blocks.py",
        "    if deterministic:\n",
        "    if False:\n",
        BLOCKS,
    ),
)
