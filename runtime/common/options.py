"""Options: what whoever runs a server may choose.

Each is defined once, on the field of the config that it sets: the field has its type and default, and an `Option`
behind the type says the rest.

    @dataclass(frozen=True, slots=True)
    class EngineConfig:
        queue: Annotated[int, Option("Requests that may wait for a slot.", whole(0), unit="requests")] = 64

`web.commands.options` collects these fields; flags, environment variables, the keys of a file, the reference and all
checks come from there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

UNBOUNDED = 2**31 - 1  # as large as a count can be; from here on a range's end is not worth saying


@dataclass(frozen=True, slots=True)
class Range:
    """The values that a number may have; NaN is in none.

    Attributes:
        least: the lower bound, which is among the values unless `above`.
        most: the upper bound, which is among the values.
        above: whether `least` is not.
        whole: whether only whole numbers are.
    """

    least: float
    most: float
    above: bool = False
    whole: bool = False

    def __contains__(self, value: object) -> bool:
        """Return whether `value` is a number of the right kind and within the bounds; a truth value is no number."""
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            return False
        return self.least <= value <= self.most and not (self.above and value == self.least)

    def __str__(self) -> str:
        """Say the range in words, as errors and tables show it."""
        kind = "a whole number" if self.whole else "a number"
        if self.most >= UNBOUNDED:
            return f"{kind} above {self.least:g}" if self.above else f"{kind} from {self.least:g} up"
        if self.above:
            return f"{kind} above {self.least:g} and at most {self.most:g}"
        return f"{kind} from {self.least:g} to {self.most:g}"


def whole(least: int, most: int = UNBOUNDED) -> Range:
    """The whole numbers from `least` to `most`."""
    return Range(least, most, whole=True)


NOT_NEGATIVE = Range(0, math.inf)
POSITIVE = Range(0, math.inf, above=True)


@dataclass(frozen=True, slots=True)
class Option:
    """Description of an option beside its type and default.

    Attributes:
        help: what it does, in a sentence or two.
        allowed: the bounds of a number.
        words: the words that a text may be; empty for any text.
        unit: what a value counts, such as `seconds`, or is: `file`, `output` (a file to be written) or `folder` for a
            path.  `bytes` may also be written as sizes, such as 2GiB.
        name: as it is written in a file, where that is not the field's name.
        aliases: other names of the flag, most of them other servers'.
        none: the words that mean None, where the field can be that; the first of them is shown.  `0` among them is the
            number.
        secret: whether its value must not be shown.
    """

    help: str
    allowed: Range | None = None
    words: tuple[str, ...] = ()
    unit: str = ""
    name: str = ""
    aliases: tuple[str, ...] = ()
    none: tuple[str, ...] = ()
    secret: bool = False
