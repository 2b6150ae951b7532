"""Bad edits of what computes each row alike in any company."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

ROWS = ("tests/unit/runtime/nn/layers/test_native_layer_deterministic.py",)
PROMPTS = ("tests/unit/runtime/nn/layers/test_native_layer_prompts.py",)
PARTS = ("tests/unit/runtime/nn/layers/test_native_layer_mixed.py",)
CODES = ("tests/unit/runtime/nn/matrices/test_byte_products.py",)
BLOCKS = ("tests/unit/runtime/kv/test_blocks.py",)

MUTANTS = (
    Mutant(
        "many rows of a deterministic layer are left to PyTorch",
        "runtime/nn/layers/native_layer.py",
        "        self._takes_all = deterministic or (",
        "        self._takes_all = (",
        ROWS,
    ),
    Mutant(
        "many float32 rows of a layer of bytes are left to PyTorch",
        "runtime/nn/layers/native_layer.py",
        "deterministic or (self._of_bytes and dtype == torch.float32)",
        "deterministic",
        PROMPTS,
    ),
    Mutant(
        "rows that see many keys are not left to PyTorch",
        "runtime/nn/layers/native_layer.py",
        " and self.mixer.keys(segment) <= MOST_KEYS",
        "",
        PROMPTS,
    ),
    Mutant(
        "the outputs of a matrix's second part are written over those of the first",
        "runtime/devices/native/source/layer.h",
        "take(r, done + output, y)",
        "take(r, output, y)",
        PARTS,
    ),
    Mutant(
        "six bits are taken for those of the next four inputs",
        "runtime/devices/native/source/codes.h",
        "two_bits<2>(high)",
        "two_bits<3>(high)",
        CODES,
    ),
    Mutant(
        "a piece of a segment lies where the segment begins",
        "runtime/step/step.py",
        "            self.start + first,\n",
        "            self.start,\n",
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
