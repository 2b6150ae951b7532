"""Bad edits of how the kernels draw tokens."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

DRAWS = ("tests/unit/runtime/nn/test_native_draws.py",)
STAGED = ("tests/unit/runtime/sampling/test_batch.py",)
SOURCE = "runtime/devices/native/source/draw.h"

MUTANTS = (
    Mutant(
        "a draw without the token that fills a filter",
        SOURCE,
        "if (measure<MEASURE>(row, number(middle)) >= sum)",
        "if (measure<MEASURE>(row, number(middle)) > sum)",
        DRAWS,
    ),
    Mutant(
        "a draw by top-p of tokens that are as heavy as the last of top-k, and too many",
        SOURCE,
        "measure<Measure::WEIGHT>(row, last) - too_many * last",
        "measure<Measure::WEIGHT>(row, last) - 0.0 * too_many",
        DRAWS,
    ),
    Mutant(
        "a draw of a token before the number is past it",
        SOURCE,
        "if (before > share * row.total) break;",
        "if (before >= share * row.total) break;",
        DRAWS,
    ),
    Mutant(
        "a draw of what fills the vocabulary's last block",
        SOURCE,
        "std::fill(last, last + TOKENS, -INFINITY);",
        "std::fill(last, last + TOKENS, 0.0f);",
        DRAWS,
    ),
    Mutant(
        "a draw of the last of equal tokens by who is greedy",
        SOURCE,
        "if (!(here > most)) return;",
        "if (!(here >= most)) return;",
        DRAWS,
    ),
    Mutant(
        "a draw by kernels of what rejection sampling judges",
        "runtime/sampling/batch.py",
        "spec.for_rejection or (draft is not None and draft.distribution is not None)",
        "spec.for_rejection",
        STAGED,
    ),
)
