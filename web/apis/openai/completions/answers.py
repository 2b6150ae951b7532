"""The answers of `POST /v1/completions`."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from web.generation.control.cancel_note import CancelNote
from web.generation.openai_format.answers.objects import PromptLogprob, RunningUsage, Timings, Usage


class TextLogprobs(TypedDict):
    """The log-probabilities of a choice's tokens: lists of one length."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class AnyTextChoice(TypedDict):
    """Fields of a choice, whole or in pieces."""

    index: int
    text: str
    logprobs: TextLogprobs | None
    cede: NotRequired[CancelNote | None]
    token_ids: NotRequired[list[int] | None]
    prompt_token_ids: NotRequired[list[int] | None]
    prompt_logprobs: NotRequired[list[dict[str, PromptLogprob] | None] | None]


class ChunkTextChoice(AnyTextChoice):
    """A piece of one of the answers."""

    finish_reason: Literal["stop", "length"] | None


class TextChoice(AnyTextChoice):
    """One of the answers: `n` for each prompt."""

    finish_reason: Literal["stop", "length"]


class Completion(TypedDict):
    """A whole answer."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[TextChoice]
    usage: Usage
    timings: Timings


class CompletionChunk(TypedDict):
    """The data of one event; the last is `[DONE]`.  An error that breaks the stream off is an error object."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChunkTextChoice]
    usage: NotRequired[Usage | RunningUsage | None]
    timings: NotRequired[Timings | None]
