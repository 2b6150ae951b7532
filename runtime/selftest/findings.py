"""Findings of a self-test: one record per check.

A check is a function that returns its figures, or raises: `Mismatch` where something is wrong, `NotHere` where there is
nothing to check on this device.  Whatever else it raises is a failure too.
"""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

PACKAGES = ("runtime", "actors", "web")

# An absolute path, of any system: it may hold the name of a person or a machine.
_PATH = re.compile(r"(?<![\w.:/])(?:~|[A-Za-z]:)?[/\\][^\s'\",;:()]+")

Figures: TypeAlias = dict[str, float | int | str]


class Status(StrEnum):
    """Outcome of a check."""

    PASS = "PASS"
    FAIL = "FAIL"
    SKIP = "SKIP"


class Mismatch(Exception):
    """Raised by a check for what it has found wrong, in a sentence, with what was measured until then."""

    def __init__(self, message: str, figures: Figures | None = None) -> None:
        super().__init__(message)
        self.figures = figures or {}


class NotHere(Exception):
    """A check has nothing to look at on this device; the message says why."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One check.

    Attributes:
        group, name: what was checked.
        seconds: that it took.
        figures: by name; the name ends with the unit.
        problem: why it failed, or was skipped.
        where: of an error that was not foreseen, the places in cede's modules that it came through, the innermost last.
    """

    group: str
    name: str
    status: Status
    seconds: float
    figures: Figures = field(default_factory=dict)
    problem: str | None = None
    where: tuple[str, ...] = ()


def passed(group: str, name: str, seconds: float, figures: Figures) -> Finding:
    """The finding of a check that returned."""
    return Finding(group, name, Status.PASS, seconds, figures)


def from_error(group: str, name: str, seconds: float, error: Exception) -> Finding:
    """The finding of a check that raised; no path is left in what it says."""
    error = _innermost(error)
    match error:
        case NotHere():
            return Finding(group, name, Status.SKIP, seconds, problem=str(error))
        case Mismatch(figures=figures):
            return Finding(group, name, Status.FAIL, seconds, figures, without_paths(str(error)))
    problem = without_paths(f"{type(error).__name__}: {error}")
    return Finding(group, name, Status.FAIL, seconds, problem=problem, where=_places(error))


def without_paths(text: str) -> str:
    """`text` with every absolute path taken out."""
    return _PATH.sub("(path)", text)


def _innermost(error: Exception) -> Exception:
    """Return what a nursery has wrapped; the first of several."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _places(error: Exception) -> tuple[str, ...]:
    frames = [(frame.f_globals.get("__name__", ""), line) for frame, line in traceback.walk_tb(error.__traceback__)]
    return tuple(f"{module}:{line}" for module, line in frames if module.partition(".")[0] in PACKAGES)
