"""How tokens are picked where a request does not say: by the model's own files, or neutrally, as OpenAI's API does.

A small model sampled from its whole distribution writes gibberish, so whoever published one recommends values in
`generation_config.json`.  Where that file has none, llama-server's are taken.
"""

from __future__ import annotations

import enum
import logging
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from runtime.checkpoint.json_fields import read_object

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

logger = logging.getLogger("cede.model")

FILE = "generation_config.json"
UNBOUNDED = 2**31 - 1  # as large as a count can be; from here on a range's end is not worth saying
LLAMA_SERVER: dict[str, float] = {
    "temperature": 0.8,
    "top_p": 0.95,
    "top_k": 40,
    "min_p": 0.05,
    "repetition_penalty": 1.0,
}


@dataclass(frozen=True, slots=True)
class Range:
    """The values that a parameter may have.

    Attributes:
        least, most: the bounds, which are among the values.
        above: whether `least` is not.
        whole: whether only whole numbers are.
    """

    least: float
    most: float
    above: bool = False
    whole: bool = False

    def __contains__(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            return False
        return self.least <= value <= self.most and not (self.above and value == self.least)

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        if self.most >= UNBOUNDED:
            return f"{kind} above {self.least:g}" if self.above else f"{kind} from {self.least:g} up"
        if self.above:
            return f"{kind} above {self.least:g} and at most {self.most:g}"
        return f"{kind} from {self.least:g} to {self.most:g}"


RANGES: dict[str, Range] = {
    "temperature": Range(0, 2),
    "top_p": Range(0, 1, above=True),
    "top_k": Range(0, UNBOUNDED, whole=True),
    "min_p": Range(0, 1),
    "repetition_penalty": Range(0.01, 100),
}


class SamplingSource(enum.StrEnum):
    """Whose defaults are taken."""

    MODEL = "model"
    OPENAI = "openai"


@dataclass(frozen=True, slots=True)
class SamplingDefaults:
    """What a request's sampling parameters are where it does not name them; those of the class are neutral.

    Attributes:
        temperature, top_p, top_k, min_p, repetition_penalty: as in `SamplingParams`.
        sources: where each of them comes from, by its name.

    Raises ValueError for a value out of its range.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    sources: Mapping[str, str] = field(default_factory=lambda: dict.fromkeys(RANGES, "openai"), compare=False)

    def __post_init__(self) -> None:
        for name, value in self.values().items():
            if value not in RANGES[name]:
                raise ValueError(f"{name} {value!r}: it should be {RANGES[name]}")

    def values(self) -> dict[str, Any]:
        """The parameters by their names."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name in RANGES}

    def __str__(self) -> str:
        by_source: dict[str, list[str]] = {}
        for name, value in self.values().items():
            by_source.setdefault(self.sources[name], []).append(f"{name} {value:g}")
        return "; ".join(f"{', '.join(values)} ({source})" for source, values in by_source.items())


def sampling_defaults(
    folder: Path, source: SamplingSource = SamplingSource.MODEL, given: Mapping[str, float] | None = None
) -> SamplingDefaults:
    """The defaults for the model in `folder`; what is `given`, by the operator, overrules.

    Raises:
        CheckpointError: `generation_config.json` is not JSON.
        ValueError: a value that is given is out of its range.
    """
    found: dict[str, tuple[float, str]] = {}
    if source is SamplingSource.MODEL:
        found |= {name: (value, "llama-server's default") for name, value in LLAMA_SERVER.items()}
        found |= {name: (value, FILE) for name, value in _recommended(folder).items()}
    found |= {name: (value, "command line") for name, value in (given or {}).items()}
    neutral = SamplingDefaults()
    return SamplingDefaults(
        **{name: value for name, (value, _) in found.items()},  # type: ignore[arg-type]  # RANGES knows their types
        sources=dict(neutral.sources) | {name: source for name, (_, source) in found.items()},
    )


def _recommended(folder: Path) -> dict[str, float]:
    """What the model's file says, without what cannot be meant; a line in the log names that.

    As for vLLM, `do_sample` is not read: it is false in most files, by nobody's decision, even beside a temperature.
    """
    path = folder / FILE
    settings = read_object(path) if path.exists() else {}
    recommended: dict[str, float] = {}
    for name, allowed in RANGES.items():
        value = settings.get(name)
        if name == "top_k" and value == -1:
            value = 0  # vLLM's way to say: no limit
        if value is None:
            continue
        if value in allowed:
            recommended[name] = value
        else:
            logger.warning("%s: %s %.60r is not used: it should be %s", FILE, name, value, allowed)
    return recommended
