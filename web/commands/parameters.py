"""The kinds of values that flags take, each with an error in plain words."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runtime.checkpoint.sampling_defaults import RANGES
from runtime.options import UNBOUNDED, Range
from runtime.units import parse_size

if TYPE_CHECKING:
    from collections.abc import Callable


class Parsed(click.ParamType[Any]):
    """Whatever a function of `runtime.units` reads."""

    def __init__(self, name: str, parse: Callable[[str], float]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        try:
            return self._parse(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Number(click.ParamType[Any]):
    """A number in a range; NaN is in none.  With `auto`, that word is None."""

    def __init__(self, allowed: Range, *, auto: bool = False) -> None:
        self.name = ("auto|" if auto else "") + ("integer" if allowed.whole else "number")
        self._allowed = allowed
        self._auto = auto

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        if value is None or (self._auto and value == "auto"):
            return None
        try:
            number = int(value) if self._allowed.whole else float(value)
        except ValueError:  # of digits, too, if there are thousands of them
            number = None
        if number not in self._allowed:
            wanted = f"neither auto nor {self._allowed}" if self._auto else f"not {self._allowed}"
            self.fail(f"{value!r} is {wanted}", param, ctx)
        return number


def whole(least: int, most: int = UNBOUNDED, *, auto: bool = False) -> Number:
    """A whole number from `least` to `most`."""
    return Number(Range(least, most, whole=True), auto=auto)


def sampling(name: str) -> Number:
    """One of the sampling parameters."""
    return Number(RANGES[name])


POSITIVE = whole(1)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
DURATION = Number(Range(0, math.inf))
SOME_SECONDS = Number(Range(0, math.inf, above=True))
AT_LEAST_ONE = Number(Range(1, math.inf))
SHARE = Number(Range(0, 1))
SIZE = Parsed("size", parse_size)
