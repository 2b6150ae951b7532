"""Bad edits of warm requests, which are to be in nobody's way, and of what nobody waits for any longer."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

ADMISSION = "actors/manager/admission.py"
UNIT = "tests/scenarios/warm/test_warm.py"

MUTANTS = (
    Mutant(
        "a warm request goes on when another's work comes",
        "actors/spare_time.py",
        "        for request in [one for one in live if one.is_warm]:\n",
        "        for request in [one for one in live if one.is_warm and one.id == newcomer.id]:\n",
        (f"{UNIT}::test_anybody_elses_work_ends_it_within_a_layer_and_has_the_slot_that_it_leaves",),
    ),
    Mutant(
        "a warm request is granted a slot while others have work",
        ADMISSION,
        "is_in_the_way = waiting.ticket.is_warm and self._others_work()\n",
        "is_in_the_way = False\n",
        (f"{UNIT}::test_while_others_have_work_it_ends_at_once_without_a_slot",),
    ),
    Mutant(
        "a warm request that comes while others have work is not told",
        "actors/spare_time.py",
        "        newcomer.cancel(CancelReason.OTHER_WORK)\n",
        "        pass\n",
        (f"{UNIT}::test_while_others_have_work_it_ends_at_once_without_a_slot",),
    ),
    Mutant(
        "a slot that is warm counts as taken for those who come",
        ADMISSION,
        "for record in holds if record.is_warm and not ticket.is_warm}",
        "for record in holds if record.is_warm and ticket.is_warm}",
        (f"{UNIT}::test_it_takes_nobodys_place_in_the_queue_and_needs_none",),
    ),
    Mutant(
        "who ends a warm request does not wait for the slot that it leaves",
        ADMISSION,
        "not self._queue or self._waits_for_warm():",
        "not self._queue:",
        (f"{UNIT}::test_anybody_elses_work_ends_it_within_a_layer_and_has_the_slot_that_it_leaves",),
    ),
    Mutant(
        "a prompt whose client has gone is as important as before",
        "actors/core/holds.py",
        "        self._priority = LEAST_IMPORTANT\n",
        "",
        (
            "tests/scenarios/cancels/test_finish_prefill.py"
            "::test_from_the_hang_up_on_it_is_less_important_than_all_others",
        ),
    ),
    Mutant(
        "who is demoted in the queue is as important as before once it has a slot",
        ADMISSION,
        "        is_demoted = self._order.priority_of(ticket.key) == LEAST_IMPORTANT\n",
        "        is_demoted = False\n",
        ("tests/scenarios/cancels/test_finish_prefill.py::test_nor_is_it_more_important_once_it_has_a_slot",),
    ),
    Mutant(
        "a prompt whose client has gone, but that another waits for, is read behind all others",
        "actors/scheduling/step_planner.py",
        "            best[leader.key] = min(best[leader.key], record.priority)\n",
        "            pass\n",
        ("tests/scenarios/cancels/test_finish_prefill.py::test_who_waits_for_what_it_reads_does_not_wait_for_others",),
    ),
)
