"""Figures of a neighbour beside a flood."""

from __future__ import annotations

from dataclasses import replace

from bench.floods.beside import HEAD, LEAST_EVENTS, Impact, Neighbour, describe, same_events, withstood

FINE = Impact(alone=800, beside=500, gap_alone=0.004, gap=0.03, busy=0.2, connections=2, sent=10**6, cut_off=2)


def test_a_neighbours_events_and_its_longest_gap_are_those_of_the_time() -> None:
    neighbour = Neighbour(port=0, times=[1, 2, 2, 2.5, 5, *[9] * 7])
    assert neighbour.between(2, 6) == (1, 2.5)
    assert neighbour.between(10, 14) == (0, 4), "a stream that has stopped is one long gap"


def test_the_pace_alone_is_that_of_the_same_events() -> None:
    alone = Neighbour(port=0, times=[float(i) for i in range(1000)])
    assert same_events(alone, 300, 700) == (300, 700)
    assert same_events(alone, 300, 300) == (300, 300 + LEAST_EVENTS), "beside, nothing came"
    assert same_events(alone, 800, 1200) == (800, 999), "beside, more came than alone"
    assert same_events(alone, 1100, 1200) == (999 - LEAST_EVENTS, 999)


def test_a_flood_is_withstood_by_half_of_the_speed_without_a_gap_and_with_rest() -> None:
    assert withstood(FINE)
    assert not withstood(replace(FINE, beside=399))
    assert not withstood(replace(FINE, gap=0.11))
    assert not withstood(replace(FINE, busy=2.1))


def test_a_line_of_the_table_has_a_cell_for_each_head() -> None:
    assert describe("ping", FINE).count("|") == HEAD.splitlines()[0].count("|")
