"""The numbers that a decoder multiplies with, and the bounds that it draws scores towards."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runtime.checkpoint.json_fields import boolean, integer, invalid, number, numbers

if TYPE_CHECKING:
    from runtime.checkpoint.json_fields import Settings


@dataclass(frozen=True, slots=True)
class QueryScale:
    """Factor of a rotated query: `1 + strength * log(1 + position // length)`, as Llama 4 has it.

    Attributes:
        strength: how fast it grows.
        length: positions that it grows after; before these it is 1.
    """

    strength: float
    length: int


@dataclass(frozen=True, slots=True)
class Scales:
    """Factors of a decoder; 1 changes nothing.

    A soft cap makes `cap * tanh(x / cap)` of each number; None leaves it.

    Attributes:
        attention: of a query's product with a key.
        embedding: of what goes into the first layer.
        residual: of what attention and the MLP add to the hidden states.
        mlp: of what the MLP adds, besides.
        gate: of an MLP's gate, before its activation.
        logits: of the head's product.
        attention_softcap: of scaled scores, before the softmax.
        logits_softcap: of scaled logits.
        query: of a query, by its position; None for none.
    """

    attention: float
    embedding: float = 1.0
    residual: float = 1.0
    mlp: float = 1.0
    gate: float = 1.0
    logits: float = 1.0
    attention_softcap: float | None = None
    logits_softcap: float | None = None
    query: QueryScale | None = None


def llama_scales(settings: Settings, head_dim: int) -> Scales:
    """Scale scores by the size of a head, and nothing else."""
    return Scales(attention=head_dim**-0.5)


def gemma_scales(settings: Settings, head_dim: int) -> Scales:
    """Scale the embedding by the square root of its size, as Gemma does."""
    return Scales(attention=head_dim**-0.5, embedding=math.sqrt(integer(settings, "hidden_size")))


def gemma3_scales(settings: Settings, head_dim: int) -> Scales:
    """Take the scale of scores from the file, too, and a cap of the logits, as Gemma 3 does."""
    return Scales(
        attention=number(settings, "query_pre_attn_scalar") ** -0.5,
        embedding=math.sqrt(integer(settings, "hidden_size")),
        logits_softcap=_optional(settings, "final_logit_softcapping"),
    )


def gemma4_scales(settings: Settings, head_dim: int) -> Scales:
    """Leave scores as they are, as Gemma 4 does, whose queries and keys are normalised for it."""
    return Scales(
        attention=1.0,
        embedding=math.sqrt(integer(settings, "hidden_size")),
        logits_softcap=_optional(settings, "final_logit_softcapping"),
    )


def gemma4_assistant_scales(settings: Settings, head_dim: int) -> Scales:
    """Likewise, and cap no logits: Gemma 4's drafters do not."""
    return replace(gemma4_scales(settings, head_dim), logits_softcap=None)


def gemma2_scales(settings: Settings, head_dim: int) -> Scales:
    """Cap scores, too, as Gemma 2 does."""
    return replace(gemma3_scales(settings, head_dim), attention_softcap=_optional(settings, "attn_logit_softcapping"))


def granite_scales(settings: Settings, head_dim: int) -> Scales:
    """Take four numbers from the file, as Granite does; it divides logits."""
    return Scales(
        attention=number(settings, "attention_multiplier"),
        embedding=number(settings, "embedding_multiplier"),
        residual=number(settings, "residual_multiplier"),
        logits=1 / number(settings, "logits_scaling"),
    )


def falcon_scales(settings: Settings, head_dim: int) -> Scales:
    """Take seven numbers from the file, as Falcon-H1 does; of what attention reads, and of keys, scores have them."""
    inputs = number(settings, "attention_in_multiplier")
    if inputs != 1 and boolean(settings, "attention_bias"):
        raise invalid("attention_in_multiplier", inputs, "is not supported beside attention_bias")
    gate, mlp = numbers(settings, "mlp_multipliers", 2)
    return Scales(
        attention=head_dim**-0.5 * inputs**2 * number(settings, "key_multiplier"),
        embedding=number(settings, "embedding_multiplier"),
        mlp=mlp,
        gate=gate,
        logits=number(settings, "lm_head_multiplier"),
    )


def cohere_scales(settings: Settings, head_dim: int) -> Scales:
    """Take the scale of logits from the file, as Cohere's models do."""
    return Scales(attention=head_dim**-0.5, logits=number(settings, "logit_scale"))


def ministral3_scales(settings: Settings, head_dim: int) -> Scales:
    """Scale queries by their position, as Ministral 3 does where a number among the rope's parameters says so."""
    rope = settings.get("rope_scaling") or settings.get("rope_parameters") or {}
    query = None
    if rope.get("llama_4_scaling_beta"):
        length = integer(rope, "original_max_position_embeddings")
        query = QueryScale(number(rope, "llama_4_scaling_beta"), length)
    return replace(llama_scales(settings, head_dim), query=query)


def _optional(settings: Settings, key: str) -> float | None:
    return None if settings[key] is None else number(settings, key)
