"""Common fields of the request bodies of OpenAI's two generation endpoints, as strict pydantic models.

What a field may hold is in `web.bodies.fields`; null stands for "not given".  Fields outside these models are of three
kinds: names that mean nothing to cede (logged and ignored), hints that change nothing in the response (`HINTS`,
ignored), and features that cede does not have (`UNSUPPORTED`), which are refused unless they hold a neutral value.
"""

from __future__ import annotations

from typing import TypeVar

from pydantic import AliasChoices, ConfigDict, Field

from web.bodies.fields import (
    AllowedIds,
    BadWords,
    BestOf,
    Choices,
    KeptTokens,
    LogitBias,
    MaxTokens,
    MinTokens,
    Name,
    Penalty,
    RepetitionPenalty,
    ServiceTier,
    Stop,
    StopIds,
    TopLogprobs,
)
from web.bodies.strict_model import StrictModel, show_unsupported
from web.generation.asked import CommonFields
from web.generation.grammars import GrammarFields
from web.generation.passed_over import CHAT, names_in

BodyT = TypeVar("BodyT", bound="GenerationBody")


class StreamOptions(StrictModel):
    """OpenAI's `stream_options`."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None  # vLLM's


class GenerationBody(CommonFields, GrammarFields):
    """The parameters of both endpoints: those of OpenAI, then those of llama-server, of vLLM and of cede."""

    model_config = ConfigDict(json_schema_extra=lambda schema: show_unsupported(schema, UNSUPPORTED))

    model: Name | None = None
    max_tokens: MaxTokens | None = None
    n: Choices | None = None
    best_of: BestOf | None = None  # 0 asks for nothing
    stop: Stop | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: LogitBias | None = None
    user: Name | None = None
    prompt_cache_key: Name | None = None
    service_tier: ServiceTier | None = None

    n_predict: MaxTokens | None = None
    repetition_penalty: RepetitionPenalty | None = Field(
        None, validation_alias=AliasChoices("repetition_penalty", "repeat_penalty")
    )
    min_tokens: MinTokens | None = None
    stop_token_ids: StopIds | None = None
    include_stop_str_in_output: bool | None = None
    allowed_token_ids: AllowedIds | None = None
    bad_words: BadWords | None = None
    truncate_prompt_tokens: KeptTokens | None = None
    return_token_ids: bool | None = None
    prompt_logprobs: TopLogprobs | None = None


# Hints to the server, which change nothing in the response.
HINTS = names_in(CHAT) | {"metadata", "prediction", "parallel_tool_calls"}

# Features that cede does not have, each with the values (beside null) that ask for nothing.
UNSUPPORTED: dict[str, tuple[object, ...]] = {
    "tools": ([],),
    "tool_choice": ("none",),
    "functions": ([],),
    "function_call": ("none",),
    "modalities": (["text"],),
    "audio": (),
    "web_search_options": (),
    "moderation": (),
    "reasoning_effort": ("none", "medium"),
    "verbosity": ("medium",),
    "store": (False,),
    "suffix": ("",),
    "echo": (False,),
    "grammar_lazy": (False,),
    "grammar_triggers": ([],),
    "guided_whitespace_pattern": (),
    "structural_tag": (),
    "use_beam_search": (False,),
    "length_penalty": (1,),
    "logits_processors": ([],),
    "truncation_side": ("left",),
    "typical_p": (1,),
    "mirostat": (0,),
    "dynatemp_range": (0,),
    "xtc_probability": (0,),
    "dry_multiplier": (0,),
}
