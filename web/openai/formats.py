"""What the two endpoints answer with: the OpenAI API's shapes, as plain functions of plain data.

A `ResponseOptions` remembers what the request asked about its answer.  `ChatFormat` and `TextFormat` know where the two
endpoints differ; `UsageCounter` adds up what the generations report at their ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.core.generation import Finished, Timings, Token
    from runtime.text.tokenizer import Tokenizer

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ResponseOptions:
    """How one request is to be answered.

    Attributes:
        id: of the request and its response.
        created: seconds since the epoch.
        model: the name that the client used.
        n: choices per prompt; choice i belongs to prompt i // n.
        prompts: token ids, one tuple per choice, as in the GenerationRequest.
        echo: the text to put before each choice's own; empty without `echo`.
    """

    id: str
    created: int
    model: str
    tokenizer: Tokenizer
    n: int
    prompts: tuple[tuple[int, ...], ...]
    logprobs: bool = False
    token_ids: bool = False
    include_usage: bool = False
    echo: tuple[str, ...] = ()

    @property
    def choices(self) -> int:
        return len(self.prompts)

    def envelope(self, kind: str) -> Json:
        """The fields that every object of this response starts with."""
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


class Format(Protocol):
    """Where the chat endpoint and the text endpoint differ."""

    full: str
    chunk: str

    def opening(self, options: ResponseOptions, index: int) -> Json | None:
        """The fields of a choice's first chunk; None where the text may start right away."""

    def prompt_ids(self, options: ResponseOptions, index: int) -> tuple[Json, Json]:
        """With `return_token_ids`: what to add to the envelope, and to the choice."""

    def delta(self, text: str | None) -> Json:
        """The fields that carry `text` in a chunk; None in the last one."""

    def message(self, text: object) -> Json:
        """The fields that carry the whole text, a string or what will be one."""

    def logprobs(self, tokens: Sequence[Token], tokenizer: Tokenizer, offset: int) -> Json:
        """The log-probabilities of `tokens`, of which the first starts `offset` characters into the text."""


class ChatFormat:
    """`chat.completion` and its chunks."""

    full = "chat.completion"
    chunk = "chat.completion.chunk"

    def opening(self, options: ResponseOptions, index: int) -> Json | None:
        return {"delta": {"role": "assistant", "content": ""}}

    def prompt_ids(self, options: ResponseOptions, index: int) -> tuple[Json, Json]:
        return {"prompt_token_ids": options.prompts[index]}, {}

    def delta(self, text: str | None) -> Json:
        return {"delta": {} if text is None else {"content": text}}

    def message(self, text: object) -> Json:
        return {"message": {"role": "assistant", "content": text, "refusal": None}}

    def logprobs(self, tokens: Sequence[Token], tokenizer: Tokenizer, offset: int) -> Json:
        return {"content": [_chat_logprobs(token, tokenizer) for token in tokens], "refusal": None}


class TextFormat:
    """`text_completion`, whose chunks have the same name."""

    full = chunk = "text_completion"

    def opening(self, options: ResponseOptions, index: int) -> Json | None:
        if options.echo:
            return {"text": options.echo[index]}
        return {"text": ""} if options.token_ids else None

    def prompt_ids(self, options: ResponseOptions, index: int) -> tuple[Json, Json]:
        return {}, {"prompt_token_ids": options.prompts[index]}

    def delta(self, text: str | None) -> Json:
        return {"text": text or ""}

    def message(self, text: object) -> Json:
        return {"text": text}

    def logprobs(self, tokens: Sequence[Token], tokenizer: Tokenizer, offset: int) -> Json:
        texts = [tokenizer.token_text(token.token_id) for token in tokens]
        return {
            "tokens": texts,
            "token_logprobs": [token.logprobs and token.logprobs.logprob for token in tokens],
            "top_logprobs": [_text_alternatives(token, tokenizer) for token in tokens],
            "text_offset": _offsets(texts, offset),
        }


def _chat_logprobs(token: Token, tokenizer: Tokenizer) -> Json:
    assert token.logprobs is not None
    return {
        **_chat_alternative(token.token_id, token.logprobs.logprob, tokenizer),
        "top_logprobs": [_chat_alternative(*top, tokenizer) for top in token.logprobs.top],
    }


def _chat_alternative(token_id: int, logprob: float, tokenizer: Tokenizer) -> Json:
    text = tokenizer.token_text(token_id)
    return {"token": text, "logprob": logprob, "bytes": list(tokenizer.token_bytes(token_id))}


def _text_alternatives(token: Token, tokenizer: Tokenizer) -> dict[str, float]:
    """The most likely tokens and the chosen one, as OpenAI has it: up to `logprobs` + 1 entries."""
    assert token.logprobs is not None
    top = {tokenizer.token_text(token_id): logprob for token_id, logprob in token.logprobs.top}
    return top | {tokenizer.token_text(token.token_id): token.logprobs.logprob}


def _offsets(texts: list[str], start: int) -> list[int]:
    offsets = []
    for text in texts:
        offsets.append(start)
        start += len(text)
    return offsets


class UsageCounter:
    """Adds up what the generations of one request report at their ends."""

    def __init__(self, options: ResponseOptions) -> None:
        self._options = options
        self._finished: dict[int, Finished] = {}

    def add(self, event: Finished) -> None:
        self._finished[event.index] = event

    def usage(self) -> Json:
        """OpenAI's `usage`.  A prompt counts once, and as cached as far as all its choices found it so."""
        prompt_tokens = sum(len(prompt) for prompt in self._options.prompts[:: self._options.n])
        completion_tokens = sum(event.completion_tokens for event in self._finished.values())
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self._cached_tokens()},
        }

    def timings(self) -> Json:
        """llama-server's `timings`, summed over the generations."""
        return timings([event.timings for event in self._finished.values()])

    def _cached_tokens(self) -> int:
        least: dict[int, int] = {}
        for index, event in self._finished.items():
            prompt = index // self._options.n
            least[prompt] = min(least.get(prompt, event.cached_tokens), event.cached_tokens)
        return sum(least.values())


def timings(parts: Sequence[Timings]) -> Json:
    """llama-server's figures, and those it derives from them; of drafts only where some were made."""
    prompt_n, prompt_ms = sum(part.prompt_n for part in parts), sum(part.prompt_ms for part in parts)
    predicted_n, predicted_ms = (
        sum(part.predicted_n for part in parts),
        sum(part.predicted_ms for part in parts),
    )
    figures: Json = {
        "cache_n": sum(part.cache_n for part in parts),
        "prompt_n": prompt_n,
        "prompt_ms": prompt_ms,
        "prompt_per_token_ms": _ratio(prompt_ms, prompt_n),
        "prompt_per_second": _ratio(1000 * prompt_n, prompt_ms),
        "predicted_n": predicted_n,
        "predicted_ms": predicted_ms,
        "predicted_per_token_ms": _ratio(predicted_ms, predicted_n),
        "predicted_per_second": _ratio(1000 * predicted_n, predicted_ms),
    }
    if draft_n := sum(part.draft_n for part in parts):
        figures |= {"draft_n": draft_n, "draft_n_accepted": sum(part.draft_n_accepted for part in parts)}
    return figures


def _ratio(amount: float, by: float) -> float:
    return amount / by if by > 0 else 0.0
