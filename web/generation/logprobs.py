"""Log-probabilities of an answer's tokens, in the form that several APIs share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import TypedDict

if TYPE_CHECKING:
    from actors.core.generation import Token
    from runtime.text.tokenizer import Tokenizer


class Alternative(TypedDict):
    """A token that was likely."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprobs(Alternative):
    """A token, and those that were likely in its place."""

    top_logprobs: list[Alternative]


def token_logprobs(token: Token, tokenizer: Tokenizer) -> TokenLogprobs:
    """Return the object of a token that was made with log-probabilities, with those of its alternatives in it."""
    assert token.logprobs is not None
    top = [_alternative(*alternative, tokenizer) for alternative in token.logprobs.top]
    return {**_alternative(token.token_id, token.logprobs.logprob, tokenizer), "top_logprobs": top}


def _alternative(token_id: int, logprob: float, tokenizer: Tokenizer) -> Alternative:
    text = tokenizer.token_text(token_id)
    return {"token": text, "logprob": logprob, "bytes": list(tokenizer.token_bytes(token_id))}
