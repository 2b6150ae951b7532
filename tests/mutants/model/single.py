"""Bad edits of Metal's kernels for few rows of attention and of recurrent layers, and of the steps that use them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

KERNELS = ("tests/unit/runtime/devices/single_rows/test_check.py",)
LAUNCHES = ("tests/unit/runtime/devices/mps/test_rows.py",)
STEPS = ("tests/unit/runtime/devices/single_rows/test_rows_staged.py",)
RECURRENT = ("tests/unit/runtime/nn/test_state_check.py",)
STATES = ("tests/unit/runtime/devices/single_rows/test_states.py",)

MUTANTS = (
    Mutant(
        "SIMD groups are joined before all have left what they have",
        "runtime/devices/mps/kernels.metal",
        "    threadgroup_barrier(mem_flags::mem_threadgroup);\n",
        "",
        KERNELS,
    ),
    Mutant(
        "a number of a head is added up that lies behind it",
        "runtime/devices/mps/kernels.metal",
        "            if (mine + i < DIM) {\n                score",
        "            if (mine + i <= DIM) {\n                score",
        KERNELS,
    ),
    Mutant(
        "a split leaves out the last key where the keys cannot be divided",
        "runtime/devices/mps/kernels.metal",
        "(max(end - first, 0) + splits - 1) / splits",
        "max(end - first, 0) / splits",
        KERNELS,
    ),
    Mutant(
        "Metal's kernels that compute something else are used",
        "runtime/devices/mps/compiling.py",
        "    except Exception as why:",
        "    except RuntimeError as why:",
        LAUNCHES,
    ),
    Mutant(
        "keys are cut as if a window were none",
        "runtime/devices/mps/rows.py",
        "-(-min(seen) // KEYS_OF_A_SPLIT)",
        "-(-max(seen) // KEYS_OF_A_SPLIT)",
        LAUNCHES,
    ),
    Mutant(
        "who is left in a step attends by the table of those who were there",
        "runtime/nn/model.py",
        "        batch.single = singly.sent() if singly else None\n",
        "",
        STEPS,
    ),
    Mutant(
        "all rows of a long chunk attend one by one",
        "runtime/devices/single_rows/rows.py",
        " and max(counts) <= MOST_ROWS_OF_ONE",
        "",
        STEPS,
    ),
    Mutant(
        "what a state holds is added up in one place by all rows",
        "runtime/devices/mps/states.metal",
        "const int turn = int(row & 1);",
        "const int turn = 0;",
        RECURRENT,
    ),
    Mutant(
        "a number of a state space's state is added up that lies behind it",
        "runtime/devices/mps/states.metal",
        "            if (k < KEYS) {",
        "            if (k <= KEYS) {",
        RECURRENT,
    ),
    Mutant(
        "a state is left behind the row before",
        "runtime/devices/single_rows/states.py",
        "range(1, rows + 1)",
        "range(rows)",
        STATES,
    ),
)
