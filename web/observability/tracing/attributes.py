"""Attributes of spans: names of OpenTelemetry's conventions for generative AI where there are some, else `cede.`.

https://opentelemetry.io/docs/specs/semconv/gen-ai/
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.core.generation import Finished, GenerationRequest
    from actors.core.receipts import Receipt

Attributes = Mapping[str, str | int | float | list[str]]


def operation_of(asked: GenerationRequest) -> str:
    """Return what is asked of the model, in the conventions' words."""
    if asked.outputs.pooling is not None:
        return "embeddings"
    return "text_completion" if asked.continues else "chat"


def request_attributes(asked: GenerationRequest, model: str) -> Attributes:
    """Return what is known of a request when it comes; nothing of its text."""
    sampling = asked.sampling
    known = {
        "gen_ai.operation.name": operation_of(asked),
        "gen_ai.provider.name": "cede",
        "gen_ai.request.model": model,
        "gen_ai.response.model": model,
        "gen_ai.response.id": asked.id,
        "gen_ai.request.max_tokens": asked.max_tokens,
        "gen_ai.request.temperature": sampling.temperature,
        "gen_ai.request.top_p": sampling.top_p,
        "gen_ai.request.top_k": sampling.top_k or None,
        "gen_ai.request.presence_penalty": sampling.presence_penalty or None,
        "gen_ai.request.frequency_penalty": sampling.frequency_penalty or None,
        "gen_ai.request.seed": sampling.seed if sampling.reproducible else None,
        "gen_ai.usage.input_tokens": sum(map(len, asked.prompts)),
        "cede.generations": len(asked.prompts),
        "cede.key": asked.owner,
    }
    return {name: value for name, value in known.items() if value is not None}


def decode_attributes(last: Finished, tokens: int) -> Attributes:
    """Return what came of a generation, for the span of its decoding."""
    return {
        "gen_ai.usage.output_tokens": tokens,
        "cede.draft.tokens": last.timings.draft_n,
        "cede.draft.accepted_tokens": last.timings.draft_n_accepted,
    }


def cancel_attributes(receipt: Receipt) -> Attributes:
    """Return why and where a generation was cancelled, and what that cost."""
    return {
        "cede.cancel.reason": receipt.reason.value,
        "cede.cancel.phase": receipt.phase,
        "cede.cancel.kept_tokens": receipt.kept_tokens,
        "cede.cancel.wasted_tokens": receipt.wasted_tokens,
        "cede.cancel.layers_after": receipt.layers_after_cancel,
    }
