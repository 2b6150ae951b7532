"""Turns the bytes of KoboldAI's body into an `Asked`."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Annotated

from pydantic import AliasChoices, ConfigDict, Field

from web.apis.kobold.answers import KoboldFormatter
from web.bodies.fields import Penalty, RepetitionPenalty, Seed, StopString, Text
from web.bodies.json_size import check_json_size
from web.bodies.prompt_tokens import encode_prompt
from web.bodies.strict_model import known_fields, parse_model, show_unsupported, unknown_fields
from web.generation.asked import Asked, CommonFields, generation_request
from web.generation.ignored import IgnoredFields
from web.process.limits import MAX_INTEGER, MAX_PROMPTS, MAX_STOP_STRINGS

if TYPE_CHECKING:
    from runtime.loading.served import ServedModel

UNSUPPORTED: dict[str, tuple[object, ...]] = {
    "typical": (1,),
    "tfs": (1,),
    "top_a": (0,),
    "mirostat": (0,),
    "memory": ("",),
    "grammar": ("",),
    "banned_tokens": ([],),
    "logit_bias": ({},),
}
"""Features that are not here, each with the values (beside null) that ask for nothing."""


class GenerateBody(CommonFields):
    """The body of KoboldAI's `generate`."""

    model_config = ConfigDict(json_schema_extra=lambda schema: show_unsupported(schema, UNSUPPORTED))

    prompt: Text
    max_length: Annotated[int, Field(ge=1, le=MAX_INTEGER)] | None = None
    stop_sequence: Annotated[list[StopString], Field(max_length=MAX_STOP_STRINGS, fail_fast=True)] | None = None
    repetition_penalty: RepetitionPenalty | None = Field(
        None, validation_alias=AliasChoices("repetition_penalty", "rep_pen")
    )
    presence_penalty: Penalty | None = None
    seed: Seed | None = Field(None, validation_alias=AliasChoices("seed", "sampler_seed"))


def parse_generate(
    raw: bytes,
    model: ServedModel,
    max_generations: int = MAX_PROMPTS,
    *,
    stream: bool = False,
    ignored: IgnoredFields | None = None,
) -> Asked[None]:
    """Parse a body.

    Args:
        raw: the body.
        model: to be served from.
        max_generations: that the server can hold, which is at least the one of this request.
        stream: whether the path is that of streams.
        ignored: tells of fields that mean nothing.

    Raises:
        RequestError: the body is not valid, or asks for more than the server or the model can do.
    """
    check_json_size(raw, model.context_length)
    body = parse_model(GenerateBody, raw, UNSUPPORTED)
    request = generation_request(
        known_fields(body) | {"stop": body.stop_sequence},
        model,
        f"kobold-{uuid.uuid4().hex}",
        [encode_prompt(body.prompt, model, "prompt")],
        max_tokens=body.max_length,
        continues=True,
    )
    (ignored or IgnoredFields()).tell(request.id, unknown_fields(body, UNSUPPORTED))
    return Asked(request, None, stream, KoboldFormatter)
