"""The sampling parameters of requests that do not name them: the model's own, or OpenAI's, which are neutral.

A small model sampled from its whole distribution writes gibberish, so whoever published one recommends values in
`generation_config.json`.  Where that file has none, llama-server's are taken.
"""

from __future__ import annotations

import enum
import logging
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any

from runtime.common.options import Option, Range, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.checkpoint.json_fields import Settings

logger = logging.getLogger("cede.model")

FILE = "generation_config.json"
LLAMA_SERVER: dict[str, float] = {
    "temperature": 0.8,
    "top_p": 0.95,
    "top_k": 40,
    "min_p": 0.05,
    "repetition_penalty": 1.0,
}


RANGES: dict[str, Range] = {
    "temperature": Range(0, 2),
    "top_p": Range(0, 1, above=True),
    "top_k": whole(0),
    "min_p": Range(0, 1),
    "repetition_penalty": Range(0.01, 100),
}


class SamplingSource(enum.StrEnum):
    """Source of the defaults."""

    MODEL = "model"
    OPENAI = "openai"


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """The operator's choice of defaults."""

    source: Annotated[
        SamplingSource,
        Option(
            "Whose defaults: model, the values of its generation_config.json and, where "
            "that has none, llama-server's (temperature 0.8, top_k 40, top_p 0.95, min_p 0.05); or openai, "
            "temperature 1 and nothing filtered.",
            name="sampling-defaults",
        ),
    ] = SamplingSource.MODEL
    temperature: Annotated[
        float | None,
        Option(
            "Default temperature; 0 is greedy.  Like those below it goes before --sampling-defaults.",
            RANGES["temperature"],
            aliases=("--temp",),
            none=("none",),
        ),
    ] = None
    top_p: Annotated[
        float | None,
        Option(
            "Default top_p: keep the likeliest tokens that together have this share.", RANGES["top_p"], none=("none",)
        ),
    ] = None
    top_k: Annotated[
        int | None, Option("Default top_k: keep so many tokens; 0 for all.", RANGES["top_k"], none=("none",))
    ] = None
    min_p: Annotated[
        float | None,
        Option(
            "Default min_p: keep the tokens with this share of the likeliest one's probability.",
            RANGES["min_p"],
            none=("none",),
        ),
    ] = None
    repetition_penalty: Annotated[
        float | None,
        Option(
            "Default repetition_penalty: above 1, tokens that are there already get less likely.",
            RANGES["repetition_penalty"],
            aliases=("--repeat-penalty",),
            none=("none",),
        ),
    ] = None
    max_tokens: Annotated[
        int | None,
        Option(
            "Most tokens of an answer where the request has no limit; `none` lets it go on to the end of the context.  "
            "What a request says goes before it, -1 too, and /v1/completions has 16.",
            whole(1),
            unit="tokens",
            none=("none",),
            name="max-tokens-default",
        ),
    ] = None

    def values(self) -> dict[str, float]:
        """Return the parameters that the operator set, by their names."""
        said = {name: getattr(self, name) for name in RANGES}
        return {name: value for name, value in said.items() if value is not None}


@dataclass(frozen=True, slots=True)
class SamplingDefaults:
    """The sampling parameters of a request that does not name them; the class's own defaults are neutral.

    Attributes:
        temperature: as in `SamplingParams`, like the others.
        top_p: the share of the likeliest tokens.
        top_k: the number of the likeliest tokens.
        min_p: the least share of the likeliest one's probability.
        repetition_penalty: for tokens that are there already.
        max_tokens: the operator's limit of an answer that has no other; None for no limit.
        sources: where each value comes from, by the parameter's name.

    Raises:
        ValueError: a value is out of its range.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    max_tokens: int | None = None
    sources: Mapping[str, str] = field(default_factory=lambda: dict.fromkeys(RANGES, "openai"), compare=False)

    def __post_init__(self) -> None:
        """Check the values against their ranges."""
        for name, value in self.values().items():
            if value not in RANGES[name]:
                raise ValueError(f"{name} {value!r}: it should be {RANGES[name]}")

    def values(self) -> dict[str, Any]:
        """Return the parameters by their names."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name in RANGES}

    def __str__(self) -> str:
        """List the values by where they come from."""
        by_source: dict[str, list[str]] = {}
        for name, value in self.values().items():
            by_source.setdefault(self.sources[name], []).append(f"{name} {value:g}")
        return "; ".join(f"{', '.join(values)} ({source})" for source, values in by_source.items())


def sampling_defaults(recommended: Settings, options: SamplingOptions) -> SamplingDefaults:
    """Return the defaults for a model whose files recommend `recommended`; the operator's values go before all others.

    Raises:
        ValueError: a value of the operator's is out of its range.
    """
    found: dict[str, tuple[float, str]] = {}
    if options.source is SamplingSource.MODEL:
        found |= {name: (value, "llama-server's default") for name, value in LLAMA_SERVER.items()}
        found |= {name: (value, FILE) for name, value in _recommended(recommended).items()}
    found |= {name: (value, "operator") for name, value in options.values().items()}
    neutral = SamplingDefaults()
    return SamplingDefaults(
        **{name: value for name, (value, _) in found.items()},  # type: ignore[arg-type]  # RANGES knows their types
        max_tokens=options.max_tokens,
        sources=dict(neutral.sources) | {name: source for name, (_, source) in found.items()},
    )


def _recommended(settings: Settings) -> dict[str, float]:
    """Return what the model's file says, without values out of range, which a line in the log names.

    As for vLLM, `do_sample` is not read: it is false in most files, by nobody's decision, even beside a temperature.
    """
    recommended: dict[str, float] = {}
    for name, allowed in RANGES.items():
        value = settings.get(name)
        if name == "top_k" and value == -1:
            value = 0  # vLLM writes -1 for no limit
        if value is None:
            continue
        if value in allowed:
            recommended[name] = value
        else:
            logger.warning("%s: %s %.60r is not used: it should be %s", FILE, name, value, allowed)
    return recommended
