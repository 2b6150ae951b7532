"""Simulation that has to catch a mutant."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Simulation:
    """A program that plays a scenario for each integer, and says which of them failed.

    Attributes:
        module: that is run, with `--first-seed`, `--seeds` and `--fail-fast`.
        seeds: how many of them a mutant meets; within the seconds that one command may compute.
    """

    module: str
    seeds: int


ENGINE = Simulation("tests.sim", 500)
CLUSTER = Simulation("tests.sim.cluster", 200)
