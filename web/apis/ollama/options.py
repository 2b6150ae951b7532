"""The `options` of a body: how tokens are drawn, how many, and where the text ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from runtime.errors import RequestError
from web.bodies.fields import Penalty, RepetitionPenalty, Seed, Stop, TopK
from web.bodies.strict_model import known_fields
from web.generation.passed_over import OLLAMA, names_in
from web.generation.sampling import SamplingFields
from web.process.limits import MAX_INTEGER

if TYPE_CHECKING:
    from runtime.sampling.params import SamplingParams

FILL_CONTEXT = -2
"""The least `num_predict`.  Like 0 and -1 it asks for as many tokens as the context has room for."""

WHOLE_CONTEXT = -1
"""The `repeat_last_n` that lets all tokens count for the penalties, as they do here; 0 lets none."""


def _whole(value: object) -> object:
    """Return a number without a fraction as an integer: Ollama takes `40.0`, as languages without integers write it."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = BeforeValidator(_whole)


class Options(SamplingFields):
    """The options of Ollama's that cede knows."""

    num_predict: Annotated[int, Field(ge=FILL_CONTEXT, le=MAX_INTEGER), Whole] | None = None
    top_k: Annotated[TopK, Whole] | None = None
    seed: Annotated[Seed, Whole] | None = None
    stop: Stop | None = None
    repeat_penalty: RepetitionPenalty | None = None
    repeat_last_n: Annotated[int, Field(ge=WHOLE_CONTEXT, le=MAX_INTEGER), Whole] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None


# How a model is loaded, which is the server's to say.
IGNORED_OPTIONS = names_in(OLLAMA, "options.") | {"mirostat_tau", "mirostat_eta"}

UNSUPPORTED_OPTIONS: dict[str, tuple[object, ...]] = {
    "typical_p": (1,),
    "tfs_z": (1,),
    "mirostat": (0,),
    "penalize_newline": (True,),
}


def plain_fields(options: Options) -> dict[str, Any]:
    """Return the options in the words of other APIs, as `web.generation.asked.generation_request` reads them."""
    fields = known_fields(options) | {"repetition_penalty": options.repeat_penalty}
    if options.repeat_last_n == 0:
        fields |= {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
    return fields


def check_penalties(options: Options, sampling: SamplingParams) -> None:
    """Raise RequestError if `repeat_last_n` asks that a penalty forgets tokens."""
    if sampling.penalises and options.repeat_last_n not in (None, WHOLE_CONTEXT):
        raise RequestError(
            "'options.repeat_last_n' is not supported by this server: penalties count all tokens (-1), or none (0).",
            param="options.repeat_last_n",
            code="unsupported_parameter",
        )


def max_tokens(options: Options, default: int | None) -> int | None:
    """Return the limit on an answer's tokens, `default` where none is given; None for all that there is room."""
    if options.num_predict is None:
        return default
    return options.num_predict if options.num_predict > 0 else None
