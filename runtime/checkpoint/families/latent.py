"""The latent attention that a config.json of DeepSeek's form describes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.checkpoint.json_fields import boolean, integer, invalid, number
from runtime.checkpoint.layer_config import LatentConfig, yarn_magnitude

if TYPE_CHECKING:
    from runtime.checkpoint.json_fields import Settings
    from runtime.checkpoint.layer_config import RopeConfig


def rotated_dim(settings: Settings) -> int:
    """Return how many numbers of a head are rotated.

    Raises:
        CheckpointError: `settings` say it in two ways, or it is odd.
    """
    dim = integer(settings, "qk_rope_head_dim")
    if dim % 2:
        raise invalid("qk_rope_head_dim", dim, "is odd, so it cannot be rotated in pairs")
    whole = integer(settings, "qk_nope_head_dim") + dim
    if settings.get("head_dim") not in (None, dim, whole):  # transformers 5 writes one of these there
        raise invalid("head_dim", settings["head_dim"], f"is not the {dim} of qk_rope_head_dim")
    return dim


def parse_latent(settings: Settings, ropes: tuple[RopeConfig | None, ...]) -> LatentConfig:
    """Return what `settings` say of latent attention; the layers' ropes, if any, are those of its rotated part.

    Raises:
        CheckpointError: a number is missing, or they ask for what cede does not compute.
    """
    rope = next((rope for rope in ropes if rope is not None), None)
    rope_dim = rotated_dim(settings)
    heads = integer(settings, "num_attention_heads")
    if settings["num_key_value_heads"] not in (None, heads):
        raise invalid(
            "num_key_value_heads", settings["num_key_value_heads"], f"is not the {heads} of num_attention_heads"
        )
    query_rank = None if settings["q_lora_rank"] is None else integer(settings, "q_lora_rank")
    if query_rank is None and boolean(settings, "attention_bias"):
        raise invalid("attention_bias", True, "is not supported without q_lora_rank: q_proj would have none")
    plain_dim = integer(settings, "qk_nope_head_dim")
    value_dim = integer(settings, "v_head_dim")
    if value_dim > plain_dim + rope_dim:
        raise invalid("v_head_dim", value_dim, "is not supported: values are wider than queries and keys")
    return LatentConfig(
        query_rank=query_rank,
        rank=integer(settings, "kv_lora_rank"),
        plain_dim=plain_dim,
        rope_dim=rope_dim,
        value_dim=value_dim,
        scale=(plain_dim + rope_dim) ** -0.5 * _stretching(settings, rope),
        interleaved=boolean(settings, "rope_interleave"),
    )


def _stretching(settings: Settings, rope: RopeConfig | None) -> float:
    """Return by how much a stretched context sharpens attention: the square of YaRN's magnitude.

    It applies to every kind of stretching whose parameters have `mscale_all_dim`, as in transformers' modules.
    """
    given = settings.get("rope_scaling") or settings.get("rope_parameters") or {}
    if rope is None or rope.kind == "default" or not given.get("mscale_all_dim"):
        return 1.0
    return yarn_magnitude(rope.factor, number(given, "mscale_all_dim")) ** 2
