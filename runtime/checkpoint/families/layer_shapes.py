"""Rules that tell the sizes of each layer: of all alike, and in families where they are not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from runtime.checkpoint.families.layer_kinds import EXPERTS, FULL, MLP
from runtime.checkpoint.json_fields import boolean, integer, invalid
from runtime.checkpoint.layer_config import LayerShape

if TYPE_CHECKING:
    from runtime.checkpoint.json_fields import Settings

# What the layers that see everything have of their own in Gemma 4, by the names of its published files.
_GLOBAL = {"head_dim": "global_head_dim", "num_key_value_heads": "num_global_key_value_heads"}


def read_shape(settings: Settings) -> LayerShape:
    """Return the sizes of a layer that has none of its own.

    Raises:
        CheckpointError: there can be no such layer.
    """
    num_heads = integer(settings, "num_attention_heads")
    inner = integer(settings, "intermediate_size")
    return LayerShape(num_heads, _num_kv_heads(settings, num_heads), _head_dim(settings, num_heads), inner)


def _num_kv_heads(settings: Settings, num_heads: int) -> int:
    if settings["num_key_value_heads"] is None:
        return num_heads
    num_kv_heads = integer(settings, "num_key_value_heads")
    if num_heads % num_kv_heads:
        raise invalid("num_key_value_heads", num_kv_heads, f"does not divide the {num_heads} attention heads")
    return num_kv_heads


def _head_dim(settings: Settings, num_heads: int) -> int:
    if settings["head_dim"] is None:
        hidden_size = integer(settings, "hidden_size")
        if hidden_size % num_heads:
            raise invalid("hidden_size", hidden_size, f"is not a multiple of the {num_heads} attention heads")
        head_dim = hidden_size // num_heads
    else:
        head_dim = integer(settings, "head_dim")
    if head_dim % 2:
        raise invalid("head_dim", head_dim, "is odd, so it cannot be rotated in pairs")
    return head_dim


# --- by layer: none where all are alike -------------------------------------------------------------------------------


def all_alike(settings: Settings, types: list[str]) -> tuple[LayerShape, ...]:
    """Give no layer sizes of its own, as in Llama."""
    return ()


def gemma4_shapes(settings: Settings, types: list[str]) -> tuple[LayerShape, ...]:
    """Read the keys of Gemma 4: layers that see everything have other heads, and the last layers have no KV."""
    if types[-1] != FULL:  # transformers makes it such a layer, whatever the file says
        raise invalid("layer_types", types[-1], f"is not supported for the last layer, only {FULL} is")
    full = replace(
        read_shape({**settings, **_overrides(settings, types)}),
        values_are_keys=boolean(settings, "attention_k_eq_v"),
    )
    shapes = _sharing_kv([full if kind == FULL else read_shape(settings) for kind in types], settings, types)
    width = 2 if boolean(settings, "use_double_wide_mlp") else 1
    widths = [shape.intermediate_size * (1 if shape.kv_layer is None else width) for shape in shapes]
    return tuple(replace(shape, intermediate_size=own) for shape, own in zip(shapes, widths, strict=True))


def gemma3n_shapes(settings: Settings, types: list[str]) -> tuple[LayerShape, ...]:
    """Read the keys of Gemma 3n: each layer has an MLP of its own width, of which gates are cut off in the first."""
    widths = _by_layer(settings, "intermediate_size", len(types))
    key, sparse = "activation_sparsity_pattern", 10 if len(types) > 10 else 0
    by_rule = [0.95] * sparse + [0.0] * (len(types) - sparse)
    shares = by_rule if settings[key] is None else _by_layer(settings, key, len(types))
    if any(not isinstance(share, int | float) or not 0 <= share < 1 for share in shares):
        raise invalid(key, shares, "is not a share below 1 for each layer")
    shapes = [
        replace(read_shape({**settings, "intermediate_size": width}), mlp_sparsity=float(share))
        for width, share in zip(widths, shares, strict=True)
    ]
    return tuple(_sharing_kv(shapes, settings, types))


def _by_layer(settings: Settings, key: str, layers: int) -> list[Any]:
    """Return the values of a key that has one for each layer, or one for all."""
    given = settings[key]
    if not isinstance(given, list):
        return [given] * layers
    if len(given) != layers:
        raise invalid(key, given, f"does not have a value for each of {layers} layers")
    return given


def _sharing_kv(shapes: list[LayerShape], settings: Settings, types: list[str]) -> list[LayerShape]:
    """Let the last `num_kv_shared_layers` read the KV of the last layer before them that is of their type."""
    sharing = integer(settings, "num_kv_shared_layers", minimum=0)
    first = max(0, len(types) - sharing)
    latest = {kind: layer for layer, kind in enumerate(types[:first])}
    if not latest.keys() >= set(types[first:]):
        raise invalid("num_kv_shared_layers", sharing, "leaves layers for which no layer of their type has KV")
    readers = zip(shapes[first:], types[first:], strict=True)
    return shapes[:first] + [replace(shape, kv_layer=latest[kind]) for shape, kind in readers]


def borrowed_kv(settings: Settings, types: list[str]) -> tuple[LayerShape, ...]:
    """Read the keys of Gemma 4's drafters, of which no layer has KV: the model that they draft for lends its own."""
    shapes = gemma4_shapes({**settings, "num_kv_shared_layers": 0}, types)
    return tuple(replace(shape, kv_layer=layer) for layer, shape in enumerate(shapes))


def mlps_alone(settings: Settings, types: list[str]) -> tuple[LayerShape, ...]:
    """Give an MLP to those layers alone that are nothing else, as Nemotron-H does."""
    shape = read_shape(settings)
    without = replace(shape, intermediate_size=0)
    return tuple(shape if kind in (MLP, EXPERTS) else without for kind in types)


def heads_by_list(settings: Settings, types: list[str]) -> tuple[LayerShape, ...]:
    """Read how many query heads each layer has, where they are not as many in all, as in Laguna."""
    counts = settings["num_attention_heads_per_layer"]
    if counts in (None, [settings["num_attention_heads"]] * len(types)):
        return ()
    if not isinstance(counts, list) or len(counts) != len(types):
        raise invalid("num_attention_heads_per_layer", counts, f"is not a number for each of {len(types)} layers")
    return tuple(read_shape({**settings, "num_attention_heads": count}) for count in counts)


def no_layer_inputs(settings: Settings) -> tuple[int, int]:
    """Give layers nothing of a token but the hidden states, as Llama does."""
    return 0, 0


def gemma4_layer_inputs(settings: Settings) -> tuple[int, int]:
    """Read how many numbers each layer of Gemma 4 is given, of how many tokens; none in the larger models."""
    key = "vocab_size_per_layer_input"
    size, vocab = integer(settings, "hidden_size_per_layer_input", minimum=0), integer(settings, key)
    if size and vocab < integer(settings, "vocab_size"):
        raise invalid(key, vocab, f"is less than the {settings['vocab_size']} of vocab_size")
    return size, vocab


def gemma3n_layer_inputs(settings: Settings) -> tuple[int, int]:
    """Read the same of Gemma 3n, where tokens of images and sounds are given what the first token is."""
    return integer(settings, "hidden_size_per_layer_input"), integer(settings, "vocab_size_per_layer_input")


def one_stream(settings: Settings) -> tuple[int, int]:
    """Have one stream of hidden states, and nothing beside attention, as in Llama."""
    return 1, 0


def gemma3n_streams(settings: Settings) -> tuple[int, int]:
    """Read how many streams Gemma 3n has, and the rank of what it has beside attention."""
    if settings["altup_active_idx"] != 0:
        raise invalid("altup_active_idx", settings["altup_active_idx"], "is not supported, only 0 is")
    if not boolean(settings, "altup_correct_scale"):
        raise invalid("altup_correct_scale", False, "is not supported, only true is")
    return integer(settings, "altup_num_inputs", minimum=2), integer(settings, "laurel_rank")


def full_layers(types: list[str]) -> list[str]:
    """Return the keys of `per_layer_config` for the layers that see everything: numbers, with as many digits as all."""
    found = [str(layer) for layer, kind in enumerate(types) if kind == FULL]
    return [layer.zfill(len(found[-1])) for layer in found]


def _overrides(settings: Settings, types: list[str]) -> Settings:
    """Return the keys that are others in layers that see everything.

    Published files have names for them; transformers 5 writes them for each layer, under `per_layer_config`.
    """
    by_layer = settings["per_layer_config"]
    if by_layer is None:
        named = _GLOBAL if settings["attention_k_eq_v"] else {"head_dim": "global_head_dim"}
        return {key: settings[name] for key, name in named.items() if settings[name] is not None}
    layers = full_layers(types)
    own = by_layer.get(layers[0], {}) if isinstance(by_layer, Mapping) else None
    if not isinstance(own, Mapping) or by_layer not in ({}, dict.fromkeys(layers, own)) or own.keys() - _GLOBAL:
        raise invalid("per_layer_config", by_layer, f"is not {' and '.join(_GLOBAL)}, alike for all layers of {FULL}")
    return own
