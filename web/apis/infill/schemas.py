"""The bodies of the endpoints that fill in the middle, as strict pydantic models; null stands for "not given"."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from web.bodies.fields import Name, Seed, Text, TopLogprobs
from web.bodies.strict_model import StrictModel, show_unsupported
from web.generation.openai_format.schemas import HINTS, UNSUPPORTED, GenerationBody
from web.process.limits import MAX_FILES, MAX_RESPONSE_FIELDS, MAX_SAMPLERS


class ExtraFile(StrictModel):
    """A piece of another file, for context."""

    filename: Name | None = None
    text: Text


class InfillBody(GenerationBody):
    """The body of `POST /infill`: the gap, and whatever else a completion's body may say."""

    model_config = ConfigDict(json_schema_extra=lambda schema: show_unsupported(schema, UNSUPPORTED_IN_INFILL))

    input_prefix: Text
    input_suffix: Text
    input_extra: Annotated[list[ExtraFile], Field(max_length=MAX_FILES, fail_fast=True)] | None = None
    prompt: Text | None = None
    n_probs: TopLogprobs | None = None
    return_tokens: bool | None = None
    response_fields: Annotated[list[Name], Field(max_length=MAX_RESPONSE_FIELDS, fail_fast=True)] | None = None
    samplers: Annotated[list[Name], Field(max_length=MAX_SAMPLERS, fail_fast=True)] | None = None


class FimBody(GenerationBody):
    """The body of `POST /v1/fim/completions`: Mistral's parameters, and whatever else a completion's body may say."""

    model_config = ConfigDict(json_schema_extra=lambda schema: show_unsupported(schema, UNSUPPORTED))

    prompt: Text
    suffix: Text | None = None
    random_seed: Seed | None = None


# Of llama-server's own, with the values that ask for nothing.
UNSUPPORTED_IN_INFILL: dict[str, tuple[object, ...]] = UNSUPPORTED | {
    "post_sampling_probs": (False,),
    "lora": ([],),
    "min_keep": (0,),
}

# What changes nothing in what is generated, or only how soon a client wants to have it: llama-server's plugins for
# editors send these with each request.
HINTS_IN_INFILL = HINTS | frozenset(
    "id_slot n_keep n_discard n_cache_reuse return_progress sse_ping_interval t_max_prompt_ms timings_per_token".split()
)
