"""Names of state buffers."""

from __future__ import annotations

import pytest

from actors.core.places.state_pool import StatePool, least_buffers
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


@pytest.mark.parametrize(("drafts", "of_each"), [(0, 5), (3, 5), (8, 10)])
def test_each_slot_has_a_state_and_what_a_step_writes(drafts: int, of_each: int) -> None:
    assert least_buffers(3, drafts) == 3 * of_each


def test_a_model_is_loaded_with_as_many_as_its_sequences_need() -> None:
    assert least_buffers(1, 0) == PER_SLOT
