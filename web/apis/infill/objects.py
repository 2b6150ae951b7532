"""The answers of `POST /infill`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from web.bodies.json_types import Long
from web.generation.control.cancel_note import CancelNote
from web.generation.openai_format.answers.usage import Timings


class LikelyToken(TypedDict):
    """A token, and how likely it was."""

    id: int
    token: str
    bytes: list[int]
    logprob: float


class DrawnToken(LikelyToken):
    """A token of the answer, and those that were likely in its place."""

    top_logprobs: list[LikelyToken]


class InfillAnswer(TypedDict, total=False):
    """A whole answer; with `response_fields` only what these paths lead to, each under its path."""

    index: Literal[0]
    content: Long[str]
    tokens: Annotated[Long[list[int]], Field(description="With `return_tokens`; else empty.")]
    stop: bool
    model: str
    tokens_predicted: int
    tokens_evaluated: Annotated[int, Field(description="Tokens of the prompt.")]
    tokens_cached: Annotated[int, Field(description="Those of them that were found computed.")]
    has_new_line: bool
    truncated: Literal[False]
    stop_type: Literal["eos", "limit", "word"]
    stopping_word: str
    timings: Timings
    completion_probabilities: Long[list[DrawnToken]]
    cede: CancelNote


class InfillPiece(InfillAnswer):
    """The data of one event: a piece of the answer, or its end, where `stop` is true."""
