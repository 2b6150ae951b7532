"""The architectures that the decoder computes, each as its differences from plain Llama.

To add a family, read transformers' module of the same name and add an entry to `FAMILIES`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runtime.checkpoint.json_fields import Settings, boolean, integer, invalid
from runtime.checkpoint.mtp_layout import MIMO, MtpLayout

if TYPE_CHECKING:
    from collections.abc import Callable

FULL, SLIDING = "full_attention", "sliding_attention"  # transformers' names


def _all_rotary(settings: Settings, num_layers: int) -> tuple[bool, ...]:
    return (True,) * num_layers


def _rotary_by_layer(settings: Settings, num_layers: int) -> tuple[bool, ...]:
    """Read `no_rope_layers`, which despite its name has a 1 for each layer that does rotate."""
    flags = settings["no_rope_layers"]
    if flags is None:
        interval = integer(settings, "no_rope_layer_interval")
        return tuple((layer + 1) % interval != 0 for layer in range(num_layers))
    if not isinstance(flags, list) or len(flags) < num_layers or any(flag not in (0, 1) for flag in flags):
        raise invalid("no_rope_layers", flags, f"wants a 0 or 1 for each of {num_layers} layers")
    return tuple(bool(flag) for flag in flags[:num_layers])


def _all_full(settings: Settings, rotary: tuple[bool, ...]) -> list[str]:
    return [FULL] * len(rotary)


def _all_sliding(settings: Settings, rotary: tuple[bool, ...]) -> list[str]:
    return [SLIDING if uses_sliding_window(settings) else FULL] * len(rotary)


def _sliding_above(settings: Settings, rotary: tuple[bool, ...]) -> list[str]:
    """Slide in the layers from `max_window_layers` on, as Qwen does."""
    if not uses_sliding_window(settings):
        return [FULL] * len(rotary)
    first = integer(settings, "max_window_layers", minimum=0)
    return [SLIDING if layer >= first else FULL for layer in range(len(rotary))]


def _sliding_without_rope(settings: Settings, rotary: tuple[bool, ...]) -> list[str]:
    """Slide in the layers that do not rotate, as SmolLM3 does."""
    return [SLIDING if uses_sliding_window(settings) and not rotates else FULL for rotates in rotary]


def uses_sliding_window(settings: Settings) -> bool:
    """Whether any layer has a window."""
    return boolean(settings, "use_sliding_window") and settings["sliding_window"] is not None


@dataclass(frozen=True, slots=True)
class Family:
    """How one architecture departs from plain Llama.

    A bias is always there, never, or as the key of config.json says that is named here.

    Attributes:
        model_type: the name of the family's configuration class in transformers.
        qkv_bias: of the projections to queries, keys and values.
        output_bias: of the attention's output.
        mlp_bias: of the MLP's projections.
        qk_norm: whether query and key heads are normalised.
        rotary: tells for each layer whether it rotates, from the settings and the number of layers.
        layer_types: tells for each layer whether its attention has a window, from the settings and `rotary`.
        reads_layer_types: the key `layer_types`, where it is given, goes before that rule.
        defaults: those of the family's configuration class in transformers, for keys that the file may leave out.
        mtp: how its checkpoints name modules for multi-token prediction among the weights; None where they have none.
    """

    model_type: str
    qkv_bias: bool | str = False
    output_bias: bool | str = False
    mlp_bias: bool | str = False
    qk_norm: bool = False
    rotary: Callable[[Settings, int], tuple[bool, ...]] = _all_rotary
    layer_types: Callable[[Settings, tuple[bool, ...]], list[str]] = _all_full
    reads_layer_types: bool = False
    defaults: Settings = field(default_factory=dict)
    mtp: MtpLayout | None = None


_QWEN_WINDOW = {"sliding_window": 4096, "max_window_layers": 28, "num_key_value_heads": 32}

FAMILIES = {
    "LlamaForCausalLM": Family(
        "llama",
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        mlp_bias="mlp_bias",
        defaults={"bos_token_id": 1, "eos_token_id": 2},
    ),
    "MistralForCausalLM": Family(
        "mistral",
        layer_types=_all_sliding,
        defaults={
            "num_key_value_heads": 8,
            "sliding_window": 4096,
            "use_sliding_window": True,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
    ),
    "Qwen2ForCausalLM": Family(
        "qwen2", qkv_bias=True, layer_types=_sliding_above, reads_layer_types=True, defaults=_QWEN_WINDOW
    ),
    # Qwen2 with modules for multi-token prediction; its configuration class is Qwen2's too.
    "MiMoForCausalLM": Family(
        "mimo", qkv_bias=True, layer_types=_sliding_above, reads_layer_types=True, defaults=_QWEN_WINDOW, mtp=MIMO
    ),
    "Qwen3ForCausalLM": Family(
        "qwen3",
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        qk_norm=True,
        layer_types=_sliding_above,
        reads_layer_types=True,
        defaults={**_QWEN_WINDOW, "head_dim": 128},
    ),
    "SmolLM3ForCausalLM": Family(
        "smollm3",
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        mlp_bias="mlp_bias",
        rotary=_rotary_by_layer,
        layer_types=_sliding_without_rope,
        reads_layer_types=True,
        defaults={
            "num_key_value_heads": 4,
            "rope_theta": 2_000_000.0,
            "tie_word_embeddings": True,
            "bos_token_id": 128000,
            "eos_token_id": 128001,
        },
    ),
}

DEFAULTS: Settings = {
    "num_key_value_heads": None,
    "head_dim": None,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "rope_theta": 10_000.0,
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": False,
    "use_sliding_window": False,
    "sliding_window": None,
    "no_rope_layers": None,
    "no_rope_layer_interval": 4,
    "bos_token_id": None,
    "eos_token_id": None,
}


def layer_types(family: Family, settings: Settings, rotary: tuple[bool, ...]) -> list[str]:
    """Return `FULL` or `SLIDING` for each layer.

    Raises:
        CheckpointError: the file asks for anything else.
    """
    by_rule = family.layer_types(settings, rotary)
    given = settings.get("layer_types")
    if given is None or given == by_rule:
        return by_rule
    if not family.reads_layer_types:
        raise invalid("layer_types", given, f"is not what {family.model_type} computes")
    known = isinstance(given, list) and all(kind in (FULL, SLIDING) for kind in given)
    if not known or len(given) != len(rotary):
        raise invalid("layer_types", given, f"is not one of {FULL} and {SLIDING} for each of {len(rotary)} layers")
    return [str(kind) for kind in given]
