"""The answers of `POST /infill`, for the OpenAPI document.  A field with a default may be left out."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from web.generation.control.cancel_note import CancelNote
from web.generation.openai_format.answers.objects import Timings
from web.openapi.operations import Answer


class LikelyToken(Answer):
    """A token, and how likely it was."""

    id: int
    token: str
    bytes: list[int]
    logprob: float


class DrawnToken(LikelyToken):
    """A token of the answer, and those that were likely in its place."""

    top_logprobs: list[LikelyToken]


class InfillAnswer(Answer):
    """A whole answer; with `response_fields` only what these paths lead to, each under its path."""

    index: Literal[0] | None = None
    content: str | None = None
    tokens: list[int] | None = Field(None, description="With `return_tokens`; else empty.")
    stop: bool | None = None
    model: str | None = None
    tokens_predicted: int | None = None
    tokens_evaluated: int | None = Field(None, description="Tokens of the prompt.")
    tokens_cached: int | None = Field(None, description="Those of them that were found computed.")
    has_new_line: bool | None = None
    truncated: Literal[False] | None = None
    stop_type: Literal["eos", "limit", "word"] | None = None
    stopping_word: str | None = None
    timings: Timings | None = None
    completion_probabilities: list[DrawnToken] | None = None
    cede: CancelNote | None = None


class InfillPiece(InfillAnswer):
    """The data of one event: a piece of the answer, or its end, where `stop` is true."""
