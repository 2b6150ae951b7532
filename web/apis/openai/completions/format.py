"""The response objects of completions."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from runtime.chat.parts import TextPart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.core.generation import Token
    from runtime.chat.parts import Part
    from runtime.text.tokenizer import Tokenizer
    from web.generation.openai_format.answers.format import Call, Json, ResponseOptions


class TextFormat:
    """The responses of `/v1/completions`: `text_completion`, whose chunks have the same name."""

    full: ClassVar[str] = "text_completion"
    chunk: ClassVar[str] = "text_completion"

    def opening(self, options: ResponseOptions, index: int) -> Json | None:
        """Return the prompt where `echo` asks for it, or no text where only token ids are to come; see `Format`."""
        if options.echo:
            return {"text": options.echo[index]}
        return {"text": ""} if options.token_ids else None

    def about_prompt(self, fields: Json) -> tuple[Json, Json]:
        """Return all for the choice, which has a prompt of its own; see `Format`."""
        return {}, fields

    def delta(self, part: Part | None, call: Call | None = None) -> Json | None:
        """Return a `text`, empty where there is no part; see `Format`."""
        return {"text": part.text if isinstance(part, TextPart) else ""}

    def message(self, text: object, thought: object | None, calls: Sequence[tuple[Call, object]]) -> Json:
        """Return a `text`; see `Format`."""
        return {"text": text}

    def finish_reason(self, reason: str) -> str:
        """Return the engine's own word; see `Format`."""
        return reason

    def logprobs(self, tokens: Sequence[Token], tokenizer: Tokenizer, offset: int) -> Json:
        """Return lists that are as long as `tokens`; see `Format`."""
        texts = [tokenizer.token_text(token.token_id) for token in tokens]
        return {
            "tokens": texts,
            "token_logprobs": [token.logprobs and token.logprobs.logprob for token in tokens],
            "top_logprobs": [_text_alternatives(token, tokenizer) for token in tokens],
            "text_offset": _offsets(texts, offset),
        }


def _text_alternatives(token: Token, tokenizer: Tokenizer) -> dict[str, float] | None:
    """Return the most likely tokens and the chosen one, up to `logprobs` + 1 entries, as OpenAI does.

    None for the first token of an echoed prompt.
    """
    if token.logprobs is None:
        return None
    top = {tokenizer.token_text(token_id): logprob for token_id, logprob in token.logprobs.top}
    return top | {tokenizer.token_text(token.token_id): token.logprobs.logprob}


def _offsets(texts: list[str], start: int) -> list[int]:
    offsets = []
    for text in texts:
        offsets.append(start)
        start += len(text)
    return offsets
