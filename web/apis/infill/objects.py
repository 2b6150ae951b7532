"""The answers of `POST /infill`."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from web.generation.control.cancel_note import CancelNote
from web.generation.openai_format.answers.objects import Timings


class LikelyToken(TypedDict):
    """A token, and how likely it was."""

    id: int
    token: str
    bytes: list[int]
    logprob: float


class DrawnToken(LikelyToken):
    """A token of the answer, and those that were likely in its place."""

    top_logprobs: list[LikelyToken]


class InfillAnswer(TypedDict):
    """A whole answer; with `response_fields` only what these paths lead to, each under its path."""

    index: NotRequired[Literal[0] | None]
    content: NotRequired[str | None]
    tokens: NotRequired[Annotated[list[int] | None, Field(description="With `return_tokens`; else empty.")]]
    stop: NotRequired[bool | None]
    model: NotRequired[str | None]
    tokens_predicted: NotRequired[int | None]
    tokens_evaluated: NotRequired[Annotated[int | None, Field(description="Tokens of the prompt.")]]
    tokens_cached: NotRequired[Annotated[int | None, Field(description="Those of them that were found computed.")]]
    has_new_line: NotRequired[bool | None]
    truncated: NotRequired[Literal[False] | None]
    stop_type: NotRequired[Literal["eos", "limit", "word"] | None]
    stopping_word: NotRequired[str | None]
    timings: NotRequired[Timings | None]
    completion_probabilities: NotRequired[list[DrawnToken] | None]
    cede: NotRequired[CancelNote | None]


class InfillPiece(InfillAnswer):
    """The data of one event: a piece of the answer, or its end, where `stop` is true."""
