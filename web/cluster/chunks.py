"""From an engine's events to what the front door is told: chunks of token ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.core.generation import Finished, FinishReason, Token

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.core.generation import Progress
    from runtime.text.tokenizer import Tokenizer

Json = dict[str, Any]

SIGN_OF_LIFE: Json = {"_dynamo_annotated": True, "comment": ["alive"], "data": None, "event": None, "id": None}
"""Says that the worker is at it; the client is not shown it."""


class ChunkWriter:
    """Writes the chunks of one request.

    Args:
        tokenizer: spells the alternatives of tokens with log-probabilities.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._completion_tokens = 0

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
        return {
            "prompt_tokens": event.prompt_tokens,
            "completion_tokens": self._completion_tokens,
            "total_tokens": event.prompt_tokens + self._completion_tokens,
            "prompt_tokens_details": {"cached_tokens": event.cached_tokens},
        }


def finish_reason(event: Finished) -> str:
    """Why an output ended, in the front door's words."""
    return {FinishReason.STOP: "stop", FinishReason.LENGTH: "length", FinishReason.CANCELLED: "cancelled"}[event.reason]
