"""The kinds of values that options take, each with an error in plain words."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runtime.common.log_text import quoted
from runtime.common.units import parse_size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runtime.common.options import Range
    from web.commands.options.definitions import Definition

ZERO = "0"


class Parsed(click.ParamType[Any]):
    """Whatever a function of `runtime.common.units` reads; a word for None may be among it."""

    def __init__(self, name: str, parse: Callable[[str], float], none: tuple[str, ...] = ()) -> None:
        self.name = name
        self._parse = parse
        self._none = none

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """The value in its unit; None for such a word."""
        if value is None or value in self._none:
            return None
        try:
            return self._parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Number(click.ParamType[Any]):
    """A number in a range; NaN is in none.

    Args:
        allowed: the range.
        none: the words that mean None; `0` stands for the number.
    """

    def __init__(self, allowed: Range, none: tuple[str, ...] = ()) -> None:
        self.name = "integer" if allowed.whole else "number"
        self._allowed = allowed
        self._none = none

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """The number, or None for one of the words."""
        if value is None or value in self._none:
            return None
        number: float | None = self._read(value) if isinstance(value, str) else value
        if number == 0 and not isinstance(number, bool) and ZERO in self._none:
            return None
        if number is None or number not in self._allowed:
            words = [word for word in self._none if word != ZERO]
            wanted = f"neither {words[0]} nor {self._allowed}" if words else f"not {self._allowed}"
            self.fail(f"{quoted(value)} is {wanted}", param, ctx)
        return number if self._allowed.whole else float(number)

    def _read(self, text: str) -> float | None:
        try:
            return int(text) if self._allowed.whole else float(text)
        except ValueError:  # of digits, too, if there are thousands of them
            return None


class Word(click.Choice[str]):
    """One of some words, and what it means."""

    def __init__(self, meanings: Mapping[str, Any]) -> None:
        super().__init__(list(meanings))
        self._meanings = meanings

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """The meaning of the word."""
        return self._meanings[super().convert(value, param, ctx)]


FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
OUTPUT = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
EXISTING_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
SIZE = Parsed("size", parse_size)


def value_type(definition: Definition) -> click.ParamType[Any]:
    """Return what reads the values of an option."""
    option, kind = definition.option, definition.kind
    if issubclass(kind, Enum):
        return Word(dict.fromkeys(option.none) | {member.value: member for member in kind})
    if option.words:
        return Word({word: word for word in option.words})
    if kind is Path:
        return {"folder": FOLDER, "output": OUTPUT}.get(option.unit, FILE)
    if option.unit == "bytes":
        return Parsed("size", parse_size, option.none)
    if option.allowed is not None:
        return Number(option.allowed, option.none)
    return click.STRING
