"""Bad edits of preemption: who leaves its slot, what is kept of it, and where it goes on."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

SCENARIOS = "tests/scenarios/preemption/test_preemption.py"
IN_RETAINED = "tests/scenarios/preemption/test_retained_places.py"
RETAINED = "tests/unit/actors/preemption/test_retained_places.py"

MUTANTS = (
    Mutant(
        "one is preempted for its equal",
        "actors/scheduling/victims.py",
        "one.priority > priority and",
        "one.priority >= priority and",
        (f"{SCENARIOS}::test_equals_never_preempt_each_other",),
    ),
    Mutant(
        "one that was preempted is preempted again and again",
        "actors/scheduling/victims.py",
        "one.ledger.preemptions < MAX_PREEMPTIONS",
        "one.ledger.preemptions < 1000",
        (f"{SCENARIOS}::test_nobody_is_preempted_more_often_than_that",),
    ),
    Mutant(
        "the most important goes first",
        "actors/scheduling/victims.py",
        "(-one.priority, one.ledger.preemptions",
        "(one.priority, one.ledger.preemptions",
        (f"{SCENARIOS}::test_the_least_important_goes_and_of_equals_the_last_to_come",),
    ),
    Mutant(
        "one that may use no cached KV does when it comes back",
        "actors/manager/admission.py",
        "reuse = ticket.reuse if record is None else record.may_reuse\n",
        "reuse = ticket.reuse or record is not None\n",
        (f"{SCENARIOS}::test_who_is_preempted_before_its_first_row_reuses_kv_only_if_it_may",),
    ),
    Mutant(
        "one that is to read its prompt anew reuses what is cached where it comes back",
        "actors/core/holds.py",
        "(self.hold.ticket.reuse and not self._reads_anew)",
        "self.hold.ticket.reuse",
        (f"{SCENARIOS}::test_who_is_to_read_its_prompt_anew_reuses_nothing_where_it_comes_back_either",),
    ),
    Mutant(
        "one is preempted amid a round of its drafter",
        "actors/scheduling/victims.py",
        "            return draft_start + len(work.token_ids) == record.length + 1\n",
        "            return True\n",
        (f"{SCENARIOS}::test_who_drafts_goes_on_drafting",),
    ),
    Mutant(
        "who is preempted comes back before last tokens are copied that its own slot cannot give it",
        "actors/preemption/preemption.py",
        "place.branch_point(place.tokens.shared_with(sequence))",
        "place.tokens.shared_with(sequence)",
        (
            "tests/scenarios/preemption/test_copying.py::"
            "test_who_is_preempted_again_before_its_first_row_has_its_last_tokens_copied_again",
        ),
    ),
    Mutant(
        "one that is preempted keeps its slot",
        "actors/preemption/preemption.py",
        "        self._holds.remove(record)\n",
        "",
        (f"{SCENARIOS}::test_the_important_takes_the_slot_and_the_other_goes_on_where_it_was",),
    ),
    Mutant(
        "what is kept of one that is preempted is let go for others",
        "runtime/kv/ram_tier.py",
        " or key in self._pins:\n",
        ":\n",
        (f"{SCENARIOS}::test_what_is_pinned_is_not_let_go_for_others",),
    ),
    Mutant(
        "what was pinned for one that was preempted stays for ever",
        "actors/preemption/preemption.py",
        "        self._cache.let_go(self._preempted.pop(record.key).blocks)\n",
        "        self._preempted.pop(record.key)\n",
        (f"{SCENARIOS}::test_a_hang_up_while_preempted_ends_it_at_once",),
    ),
    Mutant(
        "what is in a retained place is copied out while somebody works",
        "actors/kv/transfers.py",
        "self._table.free if holds else self._table.lent",
        "self._table.lent",
        (f"{IN_RETAINED}::test_nothing_of_a_retained_place_is_copied_out_while_somebody_works",),
    ),
    Mutant(
        "somebody else has the retained place of one that is preempted",
        "actors/preemption/retained_places.py",
        "        return not (retained.tokens and retained.id in self._keys)\n",
        "        return True\n",
        (f"{RETAINED}::test_nobody_has_the_retained_place_of_another_who_is_preempted",),
    ),
    Mutant(
        "whoever comes is given what is kept for one who is preempted",
        "actors/preemption/retained_places.py",
        "if retained.tokens and self._is_free(retained)]",
        "if retained.tokens]",
        (f"{RETAINED}::test_nobody_else_is_given_what_is_kept_for_one_who_is_preempted",),
    ),
    Mutant(
        "one that is exchanged leaves the blocks behind that wait",
        "actors/preemption/retained_places.py",
        "        self._waiting.exchange(slot.id, retained.id)\n",
        "",
        (f"{RETAINED}::test_what_one_leaves_is_in_a_retained_place_in_the_pages_where_it_was_and_its_slot_is_empty",),
    ),
    Mutant(
        "one that is exchanged leaves its pages behind",
        "actors/core/places/record.py",
        '"pool", "owner", "reserved", "expected")',
        '"pool", "owner", "reserved", "expected", "pages")',
        (f"{SCENARIOS}::test_the_important_takes_the_slot_and_the_other_goes_on_where_it_was",),
    ),
    Mutant(
        "what is exchanged is not known any more to stand on blocks that may be wrong",
        "actors/core/places/record.py",
        '"pool", "owner", "reserved", "expected")',
        '"pool", "owner", "reserved", "expected", "stands_on")',
        ("tests/unit/actors/core/places/test_record.py::test_all_that_is_known_of_kv_goes_with_it",),
    ),
    Mutant(
        "a retained place is kept for ever for one that was preempted",
        "actors/preemption/retained_places.py",
        "            self._table.keep_until(retained, 0.0)\n            del self._keys[retained.id]\n",
        "            self._table.keep_until(retained, 0.0)\n",
        (f"{IN_RETAINED}::test_what_one_leaves_that_hangs_up_while_preempted_is_there_for_its_retry",),
    ),
    Mutant(
        "the last tokens of one that was preempted are kept when it has gone",
        "actors/kv/prefix_cache.py",
        "        return block.end % BLOCK_TOKENS != 0 and not self.tiers.ram.is_pinned(block.key)\n",
        "        return False\n",
        ("tests/scenarios/preemption/test_copying.py::test_the_last_tokens_of_who_has_gone_are_not_kept",),
    ),
    Mutant(
        "the last tokens of one that is preempted are computed again",
        "actors/kv/prefix_cache.py",
        "            missing.append(complete)\n",
        "            pass\n",
        (f"{SCENARIOS}::test_the_important_takes_the_slot_and_the_other_goes_on_where_it_was",),
    ),
    Mutant(
        "one that was preempted goes on without its newest token",
        "actors/core/holds.py",
        "            hold.prompt.extend(unread[-1:] if work.phase is State.DRAFT else unread)\n",
        "",
        (f"{SCENARIOS}::test_the_important_takes_the_slot_and_the_other_goes_on_where_it_was",),
    ),
    Mutant(
        "one that goes on forgets what its penalties count",
        "actors/generating/decode.py",
        "    token = await prefill(hold, restoring, output.next_sample(), reading)\n",
        "    spec = output.next_sample()\n"
        "    spec = type(spec)(spec.params, spec.position, 0, (), spec.end_ids, spec.masks)\n"
        "    token = await prefill(hold, restoring, spec, reading)\n",
        ("tests/scenarios/preemption/test_real_model.py::test_what_is_said_is_what_is_said_alone",),
    ),
    Mutant(
        "who is preempted does not age",
        "actors/manager/admission.py",
        "record.ledger.preemptions * LEVELS",
        "record.ledger.preemptions * 0",
        (f"{SCENARIOS}::test_who_was_preempted_is_the_first_of_those_who_waited_as_long",),
    ),
    Mutant(
        "one is preempted for somebody who could be in time only by reading along with it",
        "actors/scheduling/punctuality.py",
        " for record in self._holds if record not in without)",
        " for record in self._holds)",
        ("tests/scenarios/order/test_order.py::test_nobody_is_preempted_for_one_who_is_in_time_only_by_reading_along",),
    ),
    Mutant(
        "what was computed on a preempted sequence's last tokens is not known to stand on them",
        "actors/kv/transfer_planner.py",
        "places_of(record.hold.prompt.keys[: end // BLOCK_TOKENS], 0) | places_of(keys, command.first),",
        "places_of(record.hold.prompt.keys[: end // BLOCK_TOKENS], 0),",
        ("tests/scenarios/preemption/test_preemption.py::test_the_last_tokens_that_are_no_block_are_restored_too",),
    ),
    Mutant(
        "a part is taken over of a block that a preempted sequence's last tokens begin",
        "actors/kv/transfer_planner.py",
        "                restored_to=end,\n",
        "                restored_to=end - end % BLOCK_TOKENS,\n",
        ("tests/scenarios/kv/test_provenance.py",),
    ),
    Mutant(
        "a slot stands on blocks of which it has nothing any more",
        "actors/core/slots.py",
        " if start < length}",
        "}",
        ("tests/scenarios/kv/test_provenance.py",),
    ),
    Mutant(
        "who was preempted with nothing fails for others' KV",
        "actors/core/holds.py",
        "self.ledger.note_transferred(max(0, len(slot.tokens) - self.hold.kept))",
        "self.ledger.note_transferred(0)",
        ("tests/scenarios/kv/test_unusable_kv.py",),
    ),
)
