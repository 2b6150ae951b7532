"""Bad edits of which rows go into the next step."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "KV is written over before it is saved",
        "actors/scheduling/step_planner.py",
        " or self._has_waiting(record.slot.id):\n",
        ":\n",
    ),
    Mutant(
        "the less important generate nothing while a better prompt is read",
        "actors/scheduling/step_planner.py",
        "bool(behind) and self._passed_over < MAX_PASSED_OVER",
        "bool(behind)",
        ("tests/scenarios/order/test_order.py",),
    ),
    Mutant(
        "the less important share their step with the better prompt",
        "actors/scheduling/step_planner.py",
        "elif any(record.key in behind and work.phase is not State.DRAFT for record, work in pending):",
        "elif False:",
        (
            "tests/scenarios/order/test_order.py::"
            "test_the_less_important_generate_in_every_fourth_step_while_a_better_prompt_is_read",
        ),
    ),
    Mutant(
        "the less important generate before each piece of KV that makes way for a better prompt",
        "actors/scheduling/step_planner.py",
        "if has_transferred and self._awaits_copies(record)",
        "if False",
        (
            "tests/scenarios/preemption/test_copying.py::"
            "test_while_it_is_copied_the_less_important_generate_after_every_third_piece_only",
        ),
    ),
    Mutant(
        "the last row of one that goes on waits until a better prompt has been read",
        "actors/scheduling/step_planner.py",
        "rows if rows <= FEW else share",
        "share",
        (
            "tests/scenarios/order/test_order.py::"
            "test_the_last_rows_of_the_less_important_go_along_with_a_better_prompt",
        ),
    ),
    Mutant(
        "a step of one that runs alone is a turn for those who are behind",
        "actors/scheduling/step_planner.py",
        "        if not alone:",
        "        if True:",
        ("tests/scenarios/order/test_order.py::test_they_have_their_turn_although_steps_raise_again_and_again",),
    ),
    Mutant(
        "those of the same priority are passed over, too",
        "actors/scheduling/step_planner.py",
        "if not is_read and rank > best}",
        "if not is_read and rank >= best}",
    ),
    Mutant(
        "the shortest prompts take all of a step's rows, and the oldest starves",
        "actors/scheduling/planner.py",
        "shares[0] = min(wanted[0], (budget + 1) // 2)",
        "shares[0] = 0",
    ),
    Mutant(
        "a prompt of a better priority waits for its turn in a step",
        "actors/scheduling/planner.py",
        "    for best in sorted({priority for priority, _ in wanted}):\n",
        "    for best in sorted({priority for priority, _ in wanted}, reverse=True):\n",
    ),
)
