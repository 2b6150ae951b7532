"""The results of a benchmark, and how rounds become medians and ratios.  Plain data, saved as JSON."""

from __future__ import annotations

import enum
import json
import statistics
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Json = dict[str, Any]


class Better(enum.StrEnum):
    """Direction in which a figure is better."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class Figure:
    """One number that one round of a scenario found for one target.

    Attributes:
        name: what was measured, such as "decode".
        value: in `unit`.
        unit: of the value; empty for a ratio or a count.
        better: whether a higher or a lower value is better.
        case: the condition of the scenario, such as "4 streams".
        x: the condition as a number, if the cases lie on an axis.
        bounded: whether the measurement was given up at `value`; the true value is worse.
    """

    name: str
    value: float
    unit: str
    better: Better
    case: str = ""
    x: float | None = None
    bounded: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Name and case, which are the same for all rounds and targets."""
        return self.name, self.case


@dataclass(frozen=True, slots=True)
class Sample:
    """A figure with its target and its round, counted from 0."""

    target: str
    round: int
    figure: Figure


@dataclass(frozen=True, slots=True)
class Failure:
    """A fault in a turn.  A turn that ended in an error has no figures."""

    target: str
    round: int
    why: str


@dataclass(frozen=True, slots=True)
class Record:
    """One run of one scenario: everything that a report needs.

    Attributes:
        scenario: its name.
        about: what it measures.
        date: when the run began, in UTC.
        parameters: the scenario's sizes, and the run's seed and rounds.
        machine: what it ran on, name to description.
        targets: name to description.  Ratios are taken of the first against each other one.
        samples: all figures of all rounds.
        failures: what went wrong.
    """

    scenario: str
    about: str
    date: str
    parameters: Json
    machine: dict[str, str]
    targets: dict[str, str]
    samples: list[Sample] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """Write the record as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Record:
        """Read what `save` wrote.

        Raises:
            ValueError: the file holds something else.
        """
        try:
            fields = json.loads(path.read_text())
            fields["samples"] = [_sample(**sample) for sample in fields["samples"]]
            fields["failures"] = [Failure(**failure) for failure in fields["failures"]]
            return cls(**fields)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is not a result of `cede bench run`: {error!r}") from error


def _sample(target: str, round: int, figure: Json) -> Sample:
    return Sample(target, round, Figure(**figure | {"better": Better(figure["better"])}))


# --- statistics -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and range of one figure over the rounds; `bounded` if any round was given up."""

    median: float
    low: float
    high: float
    bounded: bool = False


def spread(values: Sequence[float], *, bounded: bool = False) -> Spread:
    """Return the spread of at least one value."""
    return Spread(statistics.median(values), min(values), max(values), bounded)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return a percentile of at least one value, interpolated linearly."""
    return float(np.percentile(values, percent))


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table.

    Attributes:
        figure: of any round, for its name, case, unit and direction.
        spreads: by target.  A target that has no such figure is missing.
        advantages: by target without the first: how many times better the first one was, round by round.  A target is
            missing if there is no ratio: no common rounds, no direction, or a value that is not positive.
    """

    figure: Figure
    spreads: dict[str, Spread]
    advantages: dict[str, Spread]


def summarise(record: Record) -> list[Row]:
    """Return one row for each figure and case, in the order in which they first came."""
    by_key: dict[tuple[str, str], list[Sample]] = {}
    for sample in record.samples:
        by_key.setdefault(sample.figure.key, []).append(sample)
    return [_row(list(record.targets), samples) for samples in by_key.values()]


def _row(targets: Sequence[str], samples: Sequence[Sample]) -> Row:
    figure = samples[0].figure
    rounds = {target: {s.round: s.figure for s in samples if s.target == target} for target in targets}
    spreads = {
        target: spread([f.value for f in figures.values()], bounded=any(f.bounded for f in figures.values()))
        for target, figures in rounds.items()
        if figures
    }
    first, *others = targets
    advantages = {}
    for other in others:
        common = sorted(rounds[first].keys() & rounds[other].keys())
        pairs = [(rounds[first][number], rounds[other][number]) for number in common]
        ratios = [ratio for ours, theirs in pairs if (ratio := advantage(ours, theirs)) is not None]
        if ratios and len(ratios) == len(pairs):
            advantages[other] = spread(ratios, bounded=any(theirs.bounded for _, theirs in pairs))
    return Row(figure, spreads, advantages)


def advantage(ours: Figure, theirs: Figure) -> float | None:
    """Return how many times better `ours` is; None if a ratio means nothing."""
    if ours.better is Better.NEITHER or ours.bounded or min(ours.value, theirs.value) <= 0:
        return None
    ratio = ours.value / theirs.value
    return ratio if ours.better is Better.HIGHER else 1 / ratio
