"""Names of state buffers."""

from __future__ import annotations

import pytest

from actors.core.places.state_pool import StatePool, kept_drafts, least_buffers, most_of_round
from runtime.loading.footprint import PER_SLOT


def test_a_buffer_is_free_until_it_is_named_and_again_when_its_last_name_is_taken_back() -> None:
    pool = StatePool(3)
    for buffer in (1, 1, 2):
        pool.name(buffer)
    assert list(pool.free) == [0]
    pool.check_integrity([1, 2, 1])
    pool.drop(1)
    assert list(pool.free) == [0]
    pool.drop(1)
    pool.drop(2)
    assert list(pool.free) == [0, 1, 2]
    assert pool.num_free == len(pool) == 3


def test_a_name_that_nobody_has_cannot_be_taken_back() -> None:
    pool = StatePool(1)
    with pytest.raises(AssertionError, match="no name"):
        pool.drop(0)


@pytest.mark.parametrize("named", [[], [0], [0, 0, 1]])
def test_a_count_that_is_wrong_is_found(named: list[int]) -> None:
    pool = StatePool(2)
    pool.name(0)
    pool.name(0)
    with pytest.raises(AssertionError, match="names"):
        pool.check_integrity(named)


def test_a_model_is_loaded_with_as_many_as_its_sequences_need() -> None:
    assert least_buffers(1) == PER_SLOT


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize(("snapshots", "states"), [(0, 4), (3, 4), (4, 5), (8, 6), (100, 29)])
def test_of_four_buffers_for_snapshots_a_round_may_have_one(slots: int, snapshots: int, states: int) -> None:
    buffers = least_buffers(slots) + slots * snapshots
    assert most_of_round(buffers, slots) == states
    assert slots * (1 + states) <= buffers, "each has the state that it goes on from, too"


@pytest.mark.parametrize(
    ("drafts", "states", "kept"),
    [
        (1, 4, [0, 1]),
        (3, 4, [0, 1, 2, 3]),
        (4, 4, [0, 1, 2, 4]),
        (8, 4, [0, 2, 5, 8]),
        (8, 6, [0, 1, 3, 4, 6, 8]),
        (16, 4, [0, 5, 10, 16]),
    ],
)
def test_a_round_keeps_what_is_before_its_first_draft_and_behind_its_last(
    drafts: int, states: int, kept: list[int]
) -> None:
    assert kept_drafts(drafts, states) == kept
