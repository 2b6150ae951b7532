"""Scores of a prompt's tokens, as a request wants to see them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from pydantic import Field
from typing_extensions import TypedDict

from actors.core.generation import Token

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.core.generation import PromptScored
    from runtime.step.prompt_rows.wanted import TokenScore
    from runtime.text.tokenizer import Tokenizer


class PromptLogprob(TypedDict):
    """Log-probabilities at a position of the prompt."""

    logprob: float
    rank: Annotated[int, Field(description="1 for the likeliest token.")]
    decoded_token: str


def echoed_tokens(event: PromptScored, alternatives: int) -> list[Token]:
    """Return the prompt's tokens as if they had been generated, each with so many alternatives at most."""
    return [
        Token(
            event.index,
            token_id,
            "",
            None if score is None else replace(score.logprobs, top=score.logprobs.top[:alternatives]),
        )
        for token_id, score in event.tokens
    ]


def prompt_logprobs(
    event: PromptScored, alternatives: int, tokenizer: Tokenizer
) -> list[dict[str, PromptLogprob] | None]:
    """Return vLLM's `prompt_logprobs`: null for the first token of a prompt, else an object by token id.

    The object has the prompt's own token first, then the likeliest ones.
    """
    return [
        None if score is None else dict(_entries(token_id, score, alternatives, tokenizer))
        for token_id, score in event.tokens
    ]


def _entries(
    token_id: int, score: TokenScore, alternatives: int, tokenizer: Tokenizer
) -> Iterator[tuple[str, PromptLogprob]]:
    own = (token_id, score.logprobs.logprob, score.rank)
    best = [
        (likely, logprob, rank)
        for rank, (likely, logprob) in enumerate(score.logprobs.top[:alternatives], start=1)
        if likely != token_id
    ]
    for shown, logprob, rank in (own, *best):
        yield str(shown), {"logprob": logprob, "rank": rank, "decoded_token": tokenizer.token_text(shown)}
