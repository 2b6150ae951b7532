"""Chunks of token ids, as the front door is told them, from an engine's events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.core.generation import Finished, FinishReason, Token
from web.cluster.translation.output_mark import mark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.core.generation import Progress
    from runtime.text.tokenizer import Tokenizer

Json = dict[str, Any]

SIGN_OF_LIFE: Json = {"_dynamo_annotated": True, "comment": ["alive"], "data": None, "event": "", "id": None}
"""Says that the worker is at it.  Without a name of an event, be it an empty one, the front door's HTTP server does not
hear of it, and ends a stream without text after a while, as if it were whole.  Clients see a comment."""


class ChunkWriter:
    """Writes the chunks of one request.

    Args:
        tokenizer: spells the alternatives of tokens with log-probabilities.
        emitted: how many tokens at the prompt's end are known to be output.
    """

    def __init__(self, tokenizer: Tokenizer, emitted: int = 0) -> None:
        self._tokenizer = tokenizer
        self._emitted = emitted
        self._completion_tokens = emitted

    def chunks(self, events: Sequence[Progress]) -> list[Json]:
        """One chunk for each choice that the events are of, the choices in the order in which they come."""
        found: dict[int, Json] = {}
        for event in events:
            match event:
                case Token():
                    self._add(found.setdefault(event.index, {"index": event.index, "token_ids": []}), event)
                case Finished():
                    chunk = found.setdefault(event.index, {"index": event.index, "token_ids": []})
                    self._completion_tokens += event.completion_tokens
                    chunk["finish_reason"] = finish_reason(event)
                    chunk["completion_usage"] = self._usage(event)
        return list(found.values())

    def _add(self, chunk: Json, token: Token) -> None:
        chunk["token_ids"].append(token.token_id)
        if token.logprobs is not None:
            chunk.setdefault("log_probs", []).append(token.logprobs.logprob)
            top = token.logprobs.top or ((token.token_id, token.logprobs.logprob),)
            chunk.setdefault("top_logprobs", []).append(
                [self._alternative(rank, *alternative) for rank, alternative in enumerate(top, start=1)]
            )

    def _alternative(self, rank: int, token_id: int, logprob: float) -> Json:
        return {
            "rank": rank,
            "token_id": token_id,
            "token": self._tokenizer.token_text(token_id),
            "logprob": logprob,
            "bytes": list(self._tokenizer.token_bytes(token_id)),
        }

    def _usage(self, event: Finished) -> Json:
        """Return what the choices that have ended took, together."""
        prompt_tokens = event.prompt_tokens - self._emitted
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": self._completion_tokens,
            "total_tokens": prompt_tokens + self._completion_tokens,
            "prompt_tokens_details": {"cached_tokens": event.cached_tokens},
        }


class MarkingWriter(ChunkWriter):
    """Writes the chunks of a request whose output is marked (`web.cluster.translation.output_mark`), and spelled here.

    Args:
        tokenizer: as of `ChunkWriter`.
        vocab_size: tokens of the vocabulary.
        emitted: as of `ChunkWriter`; the marked one is among them.
    """

    def __init__(self, tokenizer: Tokenizer, vocab_size: int, emitted: int) -> None:
        super().__init__(tokenizer, emitted)
        self._vocab_size = vocab_size
        self._has_begun = emitted > 0

    def chunks(self, events: Sequence[Progress]) -> list[Json]:
        """One chunk, with the text of all that the events are of."""
        found = super().chunks(events)
        for chunk in found:
            chunk["text"] = "".join(event.text for event in events if isinstance(event, Token | Finished))
            if chunk["token_ids"] and not self._has_begun:
                chunk["token_ids"][0] = mark(chunk["token_ids"][0], self._vocab_size)
                self._has_begun = True
        return found


def finish_reason(event: Finished) -> str:
    """Return why an output ended, in the front door's words."""
    return {FinishReason.STOP: "stop", FinishReason.LENGTH: "length", FinishReason.CANCELLED: "cancelled"}[event.reason]
