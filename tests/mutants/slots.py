"""Bad edits of the slots: who holds them, and what is known of their KV."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "owners who are isolated share the blocks of one root",
        "actors/engine.py",
        "        return owner_root(root, asked.owner)\n",
        "        return root\n",
        ("tests/scenarios/engine/test_isolation.py",),
    ),
    Mutant(
        "two owners' sequences share what is less than a block",
        "runtime/kv/token_chain.py",
        "        if self._root != other._root:\n",
        "        if False:\n",
        ("tests/scenarios/engine/test_isolation.py",),
    ),
    Mutant(
        "a slot keeps the root of whom it was granted to before",
        "actors/core/slots.py",
        "        slot.tokens = (slot.tokens if usable else prompt).head(usable)\n",
        "        slot.tokens = slot.tokens.head(usable)\n",
        ("tests/scenarios/engine/test_isolation.py",),
    ),
    Mutant(
        "a session's name takes any session's slot",
        "actors/core/slot_views.py",
        "    own = session is not None and candidate.session == session\n",
        "    own = session is not None and candidate.session is not None\n",
        ("tests/unit/actors/core/test_slots.py",),
    ),
    Mutant(
        "a session may be another API key's",
        "actors/groups/member.py",
        "(asked.owner, asked.session)",
        "(None, asked.session)",
        ("tests/scenarios/engine/test_sessions.py",),
    ),
    Mutant(
        "the drafter's KV is not trimmed after a rejection",
        "actors/core/slots.py",
        "        self._changing(slot).trim_draft(self._draft_kept(slot, start))\n",
        "        pass\n",
    ),
    Mutant(
        "a drafter that ran ahead of its target keeps its rows",
        "actors/core/places/in_view.py",
        "start + 1 if self._drafts_from_states else len(slot.tokens)",
        "len(slot.tokens)",
    ),
    Mutant(
        "what is displaced stands on nothing that its slot stood on before the grant",
        "actors/core/slots.py",
        "        slot.before = slot.resident()\n",
        "        slot.before = type(slot.resident())(slot.tokens)\n",
        ("tests/scenarios/kv/test_provenance.py",),
    ),
    Mutant(
        "a slot's tokens are not trimmed to the prompt that it is granted to (seed 5)",
        "actors/core/slots.py",
        "        slot.tokens = (slot.tokens if usable else prompt).head(usable)\n        self.trim(slot, usable)\n",
        "        slot.tokens = slot.tokens.head(len(slot.tokens))\n",
    ),
    Mutant(
        "the prompt's last token is taken from the cache",
        "actors/core/places/record.py",
        "length = self.usable(min(self.tokens.shared_with(prompt), limit))",
        "length = self.usable(self.tokens.shared_with(prompt))",
    ),
    Mutant(
        "a sequence goes on from a state inside a block that a tier gave",
        "actors/core/places/record.py",
        "        while (point := self.branch_point(length)) < length:",
        "        if (point := self.branch_point(length)) < length:",
        ("tests/unit/actors/core/places/test_states.py",),
    ),
    Mutant(
        "a sequence goes on after a part of a block that a tier gave",
        "actors/core/places/record.py",
        "        return start if start < self.restored_to else length\n",
        "        return length\n",
        (
            "tests/scenarios/kv/test_provenance.py::test_of_a_restored_block_a_sequence_that_parts_from_it_takes_nothing",
        ),
    ),
    Mutant(
        "a copy ends amid a block that a tier has given its source meanwhile",
        "actors/kv/transfer_planner.py",
        "command.end == source.usable(source.branch_point(command.end))",
        "command.end == source.usable(command.end)",
        ("tests/scenarios/kv/test_failing_sources.py",),
    ),
    Mutant(
        "a copy does not say what of it a tier gave",
        "actors/kv/transfer_planner.py",
        "restored_to=max(staged, min(source.restored_to, command.end)),",
        "restored_to=staged,",
        ("tests/scenarios/kv/test_provenance.py::test_of_a_copy_of_restored_blocks_too_nothing_is_taken_in_part",),
    ),
)
