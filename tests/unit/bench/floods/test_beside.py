"""What is told of a neighbour beside a flood."""

from __future__ import annotations

from dataclasses import replace

from bench.floods.beside import HEAD, Impact, Neighbour, describe, withstood

FINE = Impact(alone=800, beside=500, gap_alone=0.004, gap=0.03, busy=0.2, connections=2, sent=10**6, cut_off=2)


def test_a_neighbours_events_and_its_longest_gap_are_those_of_the_time() -> None:
    neighbour = Neighbour(port=0, arrivals=[1, 2, 2.5, 5, 9], counts=[1, 2, 1, 1, 7])
    assert neighbour.between(2, 6) == (1, 2.5)
    assert neighbour.between(10, 14) == (0, 4), "a stream that has stopped is one long gap"


def test_a_flood_is_withstood_by_half_of_the_speed_without_a_gap_and_with_rest() -> None:
    assert withstood(FINE)
    assert not withstood(replace(FINE, beside=399))
    assert not withstood(replace(FINE, gap=0.11))
    assert not withstood(replace(FINE, busy=2.1))


def test_a_line_of_the_table_has_a_cell_for_each_head() -> None:
    assert describe("ping", FINE).count("|") == HEAD.splitlines()[0].count("|")
