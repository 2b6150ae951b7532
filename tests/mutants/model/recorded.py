"""Bad edits of layers that were recorded, and of attention of single rows."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

LAYERS = ("tests/unit/runtime/nn/layers/test_recorded.py",)
ROWS = ("tests/unit/runtime/devices/single_rows/test_rows.py",)

MUTANTS = (
    Mutant(
        "recorded layers compute the rows that have left, and not those that are left",
        "runtime/nn/model.py",
        "        batch.recorded = 0  # the rows lie elsewhere now\n",
        "",
        LAYERS,
    ),
    Mutant(
        "a recorded row sees one position more than its window",
        "runtime/devices/cuda/kernels.py",
        "first = tl.maximum(first, end - WINDOW)",
        "first = tl.maximum(tl.maximum(first, end - WINDOW - 1), 0)",
        LAYERS,
    ),
    Mutant(
        "rows behind a step's own write where the arena begins",
        "runtime/devices/single_rows/rows.py",
        "[NO_PLACE] * none",
        "[0] * none",
        ROWS,
    ),
    Mutant(
        "single rows attend to what a drafter has no KV of",
        "runtime/devices/single_rows/rows.py",
        "    firsts = [segment.first for segment, _ in own]\n",
        "    firsts = [0 for _ in own]\n",
        ROWS,
    ),
    Mutant(
        "all parts of a row's keys weigh alike",
        "runtime/devices/cuda/kernels.py",
        "    weights = tl.exp(top - largest)\n",
        "    weights = tl.exp(largest - largest) + 0.0 * top\n",
        ROWS,
    ),
)
