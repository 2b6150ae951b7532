"""The slot table: who is granted which slot, what it still holds, and what is believed of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.core.life import State
from actors.core.slot_views import Candidate, Session, SlotView, grant_cost
from actors.core.slots import SlotTable
from runtime.kv.token_chain import TokenChain
from runtime.loading.served import Proposer

A, B, C = ("a", 0), ("b", 0), ("c", 0)

token_lists = st.lists(st.integers(0, 2), max_size=40)


def leased(table: SlotTable, owner: tuple[str, int], prompt: list[int], *, reuse: bool = True) -> SlotView:
    granted = table.grant(owner, TokenChain(b"", prompt), reuse=reuse)
    assert granted is not None
    return granted


def used(table: SlotTable, owner: tuple[str, int], tokens: list[int]) -> SlotView:
    """A slot that was leased once and in which `tokens` are now resident."""
    slot = leased(table, owner, tokens)
    table.commit(slot, tokens[len(slot.tokens) :])
    table.release(slot)
    return slot


def test_a_slot_cannot_be_released_twice() -> None:
    table = SlotTable(1, 8)
    slot = leased(table, A, [1, 2])
    table.release(slot)
    with pytest.raises(AssertionError, match="nobody holds it"):
        table.release(slot)


def test_every_slot_is_granted_once() -> None:
    table = SlotTable(3, 8)
    assert {leased(table, owner, [1, 2]).id for owner in (A, B, C)} == {0, 1, 2}
    assert table.free == []
    assert table.grant(("d", 0), TokenChain(b"", [1, 2])) is None
    table.check_integrity()


def test_a_retry_gets_the_slot_that_knows_its_prompt() -> None:
    table = SlotTable(3, 64)
    used(table, A, [1, 2, 3, 4])
    known = used(table, B, [7, 8, 9, 10, 11])
    slot = leased(table, C, [7, 8, 9, 10, 12, 13])
    assert slot is known
    assert slot.tokens == [7, 8, 9, 10]


def test_the_longer_of_two_resident_prefixes_wins() -> None:
    table = SlotTable(2, 64)
    first, second = leased(table, A, [1, 2, 3]), leased(table, B, [1, 2, 3, 4, 5])
    for slot, tokens in ((first, [1, 2, 3]), (second, [1, 2, 3, 4, 5])):
        table.commit(slot, tokens)
        table.release(slot)
    assert leased(table, C, [1, 2, 3, 4, 5, 6]) is second


def test_the_last_prompt_token_is_always_left_to_compute() -> None:
    table = SlotTable(1, 64)
    used(table, A, [1, 2, 3])
    assert leased(table, B, [1, 2, 3]).tokens == [1, 2]


def test_a_prompt_of_one_token_reuses_nothing() -> None:
    table = SlotTable(1, 64)
    used(table, A, [1, 2, 3])
    assert leased(table, B, [1]).tokens == []


def test_without_reuse_nothing_resident_is_left_in_the_slot() -> None:
    table = SlotTable(1, 64)
    used(table, A, [1, 2, 3])
    assert leased(table, B, [1, 2, 3, 4], reuse=False).tokens == []


def test_a_short_shared_beginning_does_not_cost_a_long_resident_sequence() -> None:
    table = SlotTable(2, 200)
    long = used(table, A, list(range(100)))
    assert leased(table, B, [0, 1, *range(150, 160)]) is not long
    assert len(long.tokens) == 100


def test_among_equals_the_least_recently_used_goes() -> None:
    table = SlotTable(3, 64)
    slots = [leased(table, owner, [n, 1, 1]) for n, owner in enumerate((A, B, C))]
    for slot in (slots[1], slots[0], slots[2]):
        table.commit(slot, [5, slot.id, 6])
    table.release(slots[1])
    later = leased(table, ("d", 0), [5, 1, 6, 9])  # the count of grants moves on
    assert later is slots[1]
    table.release(slots[0])
    table.release(slots[2])
    table.commit(later, [9])
    table.release(later)
    assert leased(table, ("e", 0), [40, 41]) in (slots[0], slots[2])


def test_old_residents_weigh_less_and_are_evicted_at_last() -> None:
    table = SlotTable(2, 200)
    old = used(table, A, list(range(100)))
    newest: SlotView | None = None
    for n in range(60):
        newest = used(table, ("n", n), [100 + n, *range(30)])
        if newest is old:
            break
    assert newest is old, "a sequence that nobody asks for stays for ever"


def test_status_tells_leased_from_resident() -> None:
    table = SlotTable(2, 64)
    used(table, A, [1, 2, 3])
    busy = leased(table, B, [50, 51, 52])
    table.commit(busy, [50, 51])
    by_id = {status.id: status for status in table.status(lambda _: State.PREFILL)}
    idle = by_id[1 - busy.id]
    assert (by_id[busy.id].request_id, by_id[busy.id].tokens, by_id[busy.id].state) == ("b", 2, State.PREFILL)
    assert (idle.request_id, idle.tokens, idle.resident_tokens, idle.state) == (None, 0, 3, "idle")


def test_invalidate_forgets_everything() -> None:
    table = SlotTable(1, 64)
    slot = leased(table, A, [1, 2, 3])
    table.commit(slot, [1, 2, 3])
    table.invalidate(slot)
    table.release(slot)
    assert leased(table, B, [1, 2, 3, 4]).tokens == []


def test_a_grant_remembers_what_was_in_the_slot() -> None:
    table = SlotTable(1, 64)
    used(table, A, [1, 2, 3])
    slot = leased(table, B, [1, 7, 8])
    assert slot.before is not None
    assert (list(slot.before.tokens), list(slot.tokens)) == ([1, 2, 3], [1])


@pytest.mark.parametrize(("now", "taken"), [(5.0, False), (15.0, True)])
def test_what_is_held_for_a_retry_goes_last(now: float, taken: bool) -> None:
    table = SlotTable(2, 64)
    held = leased(table, A, [1, 2, 3])
    table.commit(held, [1, 2, 3])
    other = used(table, B, list(range(40, 60)))
    table.release(held, held_until=10.0)
    slot = table.grant(C, TokenChain(b"", [30, 31]), now=now)
    assert slot is (held if taken else other)


def test_what_is_held_for_a_retry_is_there_for_the_retry() -> None:
    table = SlotTable(2, 64)
    held = leased(table, A, [1, 2, 3, 4])
    table.commit(held, [1, 2, 3, 4])
    table.release(held, held_until=10.0)
    slot = table.grant(B, TokenChain(b"", [1, 2, 3, 4, 5]), now=5.0)
    assert slot is held
    assert slot.tokens == [1, 2, 3, 4]


RED, BLUE = (None, "red"), (None, "blue")


def in_session(table: SlotTable, tokens: list[int], session: Session | None, name: str) -> SlotView:
    """A slot that was granted to a session, and in which `tokens` are now resident."""
    slot = table.grant((name, 0), TokenChain(b"", tokens), session=session)
    assert slot is not None
    table.commit(slot, tokens[len(slot.tokens) :])
    table.release(slot)
    return slot


def test_a_session_that_begins_anew_displaces_its_own_sequence_and_no_other_s() -> None:
    """Both share the tools' description; the red session was just shortened by its client."""
    shared, table = list(range(100)), SlotTable(2, 1000)
    blue = in_session(table, [*shared, *range(400, 600)], BLUE, "blue")
    red = in_session(table, [*shared, *range(200, 440)], RED, "red")
    shortened = TokenChain(b"", [*shared, *range(700, 800)])
    assert red is not blue
    chosen = {
        session: min((blue, red), key=lambda slot: cost_of(table, slot, shortened, session)) for session in (RED, None)
    }
    assert chosen == {RED: red, None: blue}
    assert table.grant(("again", 0), shortened, session=RED) is red


def cost_of(table: SlotTable, slot: SlotView, prompt: TokenChain, session: Session | None) -> tuple[bool, float, int]:
    """Return what a slot, the last of which was granted last, would cost."""
    idle = len(table) - 1 - slot.id
    usable = slot.tokens.shared_with(prompt)
    own = {0: BLUE, 1: RED}[slot.id]
    return grant_cost(Candidate(len(slot.tokens), usable, idle, False, own, slot.id), len(prompt), session, len(table))


def test_what_a_session_left_with_a_cancel_it_may_take_itself() -> None:
    for session, taken in [(RED, True), (BLUE, False), (None, False), (("key", "red"), False)]:
        table = SlotTable(2, 64)
        held = table.grant(A, TokenChain(b"", [1, 2, 3]), session=RED)
        assert held is not None
        table.commit(held, [1, 2, 3])
        other = used(table, B, list(range(40, 60)))
        table.release(held, held_until=10.0)
        assert table.grant(C, TokenChain(b"", [30, 31]), now=5.0, session=session) is (held if taken else other)


def test_a_session_s_slot_is_not_waited_for() -> None:
    table = SlotTable(2, 64)
    busy = table.grant(A, TokenChain(b"", [1, 2]), session=RED)
    slot = table.grant(B, TokenChain(b"", [1, 2, 3]), session=RED)
    assert slot is not None
    assert slot is not busy


candidates = st.builds(
    lambda resident, usable, idle, is_held, session, order: Candidate(
        resident, min(resident, usable), idle, is_held, session, order
    ),
    st.integers(0, 500),
    st.integers(0, 500),
    st.integers(0, 20),
    st.booleans(),
    st.sampled_from([RED, BLUE, None]),
    st.integers(0, 100),
)


@given(st.lists(candidates, min_size=1, max_size=6), st.integers(501, 1000))
def test_a_name_never_costs_a_neighbour_what_it_would_have_kept(free: list[Candidate], prompt_length: int) -> None:
    named, nameless = (
        min(free, key=lambda one: grant_cost(one, prompt_length, session, len(free))) for session in (RED, None)
    )
    assert named is nameless or named.session == RED


def test_integrity_check_finds_a_planted_contradiction() -> None:
    table = SlotTable(2, 4)
    first = leased(table, A, [1, 2])
    table.check_integrity()
    table.commit(first, [1, 2, 3, 4, 5])
    with pytest.raises(AssertionError):
        table.check_integrity()


def test_integrity_check_finds_one_generation_in_two_slots() -> None:
    table = SlotTable(2, 4)
    leased(table, A, [1, 2])
    leased(table, A, [1, 2])
    with pytest.raises(AssertionError, match="one generation holds two slots"):
        table.check_integrity()


@given(st.lists(st.tuples(st.integers(0, 5), token_lists.filter(bool), st.integers(0, 40)), max_size=30))
@settings(deadline=None)
def test_whatever_is_granted_is_a_proper_prefix_of_the_prompt(uses: list[tuple[int, list[int], int]]) -> None:
    table = SlotTable(3, 64)
    for n, (_, tokens, committed) in enumerate(uses):
        slot = leased(table, ("r", n), tokens)
        assert slot.tokens == tokens[: len(slot.tokens)]
        assert len(slot.tokens) < len(tokens)
        table.commit(slot, tokens[len(slot.tokens) : max(committed, len(slot.tokens))])
        table.release(slot)
        table.check_integrity()


# --- the drafter's KV ------------------------------------------------------------------------------------------------


def _draft(table: SlotTable, slot: SlotView, rows: int) -> int:
    """Let the drafter read `rows` from where it can; returns where that was."""
    start = table.draft_start(slot)
    table.commit_draft(slot, start, rows)
    return start


def test_a_draft_model_reads_everything_and_keeps_what_was_accepted() -> None:
    table = SlotTable(1, 64)
    slot = leased(table, A, [1, 2, 3, 4])
    table.commit_transferred(slot, [1, 2])
    table.commit(slot, [3, 4])
    assert _draft(table, slot, 5) == 0  # the committed four, and the token drawn after them
    assert _draft(table, slot, 1) == 5
    assert _draft(table, slot, 1) == 6
    table.commit(slot, [9, 8])  # verified: the token drawn, and one of three drafts
    table.end_round(slot, 4)
    assert (slot.draft_first, slot.draft_length) == (0, 6)
    table.check_integrity()


def test_a_drafter_of_states_reads_only_what_was_computed_here() -> None:
    table = SlotTable(1, 64, proposer=Proposer.MTP)
    slot = leased(table, A, [1, 2, 3, 4])
    table.commit_transferred(slot, [1, 2])
    table.commit(slot, [3, 4])
    assert _draft(table, slot, 2) == 3  # the state of 2 is not known, that of 3 is
    assert (slot.draft_first, slot.draft_length) == (3, 5)
    assert _draft(table, slot, 1) == 5
    table.commit(slot, [9, 8, 7])
    table.end_round(slot, 4)
    assert (slot.draft_first, slot.draft_length) == (3, 5)  # the row after stood on the module's own output
    assert _draft(table, slot, 3) == 5


def test_a_trim_below_the_drafter_s_first_row_leaves_it_nothing() -> None:
    table = SlotTable(1, 64, proposer=Proposer.MTP)
    slot = leased(table, A, [1, 2, 3, 4, 5])
    table.commit_transferred(slot, [1, 2])
    table.commit(slot, [3, 4, 5])
    _draft(table, slot, 2)
    table.trim(slot, 3)
    assert (slot.draft_first, slot.draft_length, slot.computed_from) == (0, 0, 2)
    table.trim(slot, 1)
    assert slot.computed_from == 1
    assert table.draft_start(slot) == 2


@pytest.mark.parametrize("from_states", [False, True])
def test_at_rest_the_drafter_s_kv_is_within_the_committed_tokens(from_states: bool) -> None:
    table = SlotTable(1, 64, proposer=Proposer.MTP if from_states else Proposer.DRAFT)
    slot = leased(table, A, [1, 2, 3])
    table.commit(slot, [1, 2, 3])
    _draft(table, slot, 4)
    _draft(table, slot, 1)
    table.release(slot)
    assert slot.draft_length == 3
    table.check_integrity()
    again = leased(table, B, [1, 2, 9])
    assert again.draft_length == 2
    table.forget_draft(again)
    assert table.draft_start(again) == int(from_states)
