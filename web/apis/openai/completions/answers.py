"""The answers of `POST /v1/completions`, for the OpenAPI document.  A field with a default may be left out."""

from __future__ import annotations

from typing import Literal

from web.generation.control.cancel_note import CancelNote
from web.generation.openai_format.answers.objects import PromptLogprob, RunningUsage, Timings, Usage
from web.openapi.operations import Answer


class TextLogprobs(Answer):
    """The log-probabilities of a choice's tokens: lists of one length."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class ChunkTextChoice(Answer):
    """A piece of one of the answers."""

    index: int
    text: str
    logprobs: TextLogprobs | None
    finish_reason: Literal["stop", "length"] | None
    cede: CancelNote | None = None
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None
    prompt_logprobs: list[dict[str, PromptLogprob] | None] | None = None


class TextChoice(ChunkTextChoice):
    """One of the answers: `n` for each prompt."""

    finish_reason: Literal["stop", "length"]


class Completion(Answer):
    """A whole answer."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[TextChoice]
    usage: Usage
    timings: Timings


class CompletionChunk(Answer):
    """The data of one event; the last is `[DONE]`.  An error that breaks the stream off is an error object."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChunkTextChoice]
    usage: Usage | RunningUsage | None = None
    timings: Timings | None = None
