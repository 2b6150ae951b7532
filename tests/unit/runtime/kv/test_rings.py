"""Rings, against rings that are written row by row."""

from __future__ import annotations

import random

import pytest

from runtime.kv.rings import Rings, plan_rings


class WrittenRing:
    """One layer's ring, which remembers the position of the row at each place."""

    def __init__(self, capacity: int) -> None:
        self.positions = [-1] * capacity

    def write(self, start: int, end: int) -> None:
        """Write the rows of these positions."""
        for position in range(start, end):
            self.positions[position % len(self.positions)] = position

    def has(self, start: int, end: int) -> bool:
        """Return whether the rows of all these positions are there."""
        return all(self.positions[position % len(self.positions)] == position for position in range(start, end))


def can_go_on(layers: list[tuple[int, WrittenRing]], length: int) -> bool:
    """Return whether the row at `length` finds all that it sees, in every layer."""
    return all(ring.has(max(0, length - window + 1), length) for window, ring in layers)


def layers_of(rings: Rings) -> list[tuple[int, WrittenRing]]:
    return [(window, WrittenRing(window + rings.slack)) for window in rings.windows if window is not None]


@pytest.mark.parametrize("windows", [(8,), (2,), (None, 8), (3, None, 8), (30, 2)])
@pytest.mark.parametrize("slack", [1, 4, 16])
def test_from_the_least_length_on_a_sequence_can_go_on_and_not_from_the_one_before(
    windows: tuple[int | None, ...], slack: int
) -> None:
    rings = Rings(windows, slack)
    layers = layers_of(rings)
    for written in range(1, 100):
        for _, ring in layers:
            ring.write(written - 1, written)
        least = rings.least_length(written)
        assert all(can_go_on(layers, length) for length in range(max(1, least), written + 1))
        assert least <= 1 or not can_go_on(layers, least - 1)


@pytest.mark.parametrize("windows", [(8,), (None, 8), (3, 8)])
def test_no_step_takes_away_what_the_length_that_it_began_at_needs(windows: tuple[int | None, ...]) -> None:
    """Whether its rows are committed, cancelled, or of drafts that are rejected."""
    dice, rings = random.Random(1), Rings(windows, 12)
    layers = layers_of(rings)
    length = least = 0
    for _ in range(2000):
        rows = dice.randint(1, rings.slack)
        for _, ring in layers:
            ring.write(length, length + rows)
        least = max(least, rings.least_length(length + rows))
        assert least <= length or not length
        assert can_go_on(layers, length)
        length += dice.choice([0, 1, rows])
        if dice.random() < 0.1:
            length = dice.randint(min(max(least, 1), length), length)
            assert can_go_on(layers, length)


def test_a_ring_that_was_filled_from_a_position_on_can_go_on_from_where_it_sees_no_further_back() -> None:
    rings = Rings((None, 3, 8), 12)
    for first in range(20):
        for written in range(max(first + 8, 1), first + 12):
            layers = layers_of(rings)
            for _, ring in layers:
                ring.write(first, written)
            least = rings.least_length_from(first, written)
            assert all(can_go_on(layers, length) for length in range(max(1, least), written + 1))
            kept = rings.first_kept(least)
            assert all(ring.has(kept, written) for _, ring in layers)
            assert rings.first_needed(written) >= first


def test_a_layer_has_a_ring_where_that_takes_less_than_the_context() -> None:
    assert plan_rings([None, 16, 100, None], 64, 32) == Rings((None, 16, None, None), 32)
    assert plan_rings([None, 32], 64, 32) is None
    assert plan_rings([None, None], 1000, 1) is None


def test_the_capacity_of_a_layer_is_its_window_and_the_slack() -> None:
    rings = Rings((None, 16), 32)
    assert [rings.capacity(layer) for layer in range(2)] == [None, 48]
    assert rings.max_rows == 16
    assert rings.has_full_layers
    assert not Rings((16,), 32).has_full_layers


def test_a_layer_may_have_several_pieces_of_a_token_or_none() -> None:
    assert Rings((None, 16, None), 32).full_pieces == [0, 2]
    assert Rings((16, None, 16, None), 32, (1, 2, 0, 1)).full_pieces == [1, 2, 3]
