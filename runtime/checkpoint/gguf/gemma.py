"""Gemma 4 and 3n in GGUF files: keys with a value for each layer, or for layers with a window and for the others.

Sources: `Gemma4Model` and `Gemma3NModel` of llama.cpp's conversion modules, which write the files, and its `gemma4.cpp`
and `gemma3n.cpp`.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from runtime.checkpoint.families.layer_kinds import FULL, SLIDING
from runtime.checkpoint.families.layer_shapes import full_layers
from runtime.checkpoint.gguf import rope
from runtime.checkpoint.gguf.architecture import Key
from runtime.checkpoint.stored import SelectedRows
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from runtime.checkpoint.gguf.file import GgufFile
    from runtime.checkpoint.json_fields import Settings
    from runtime.checkpoint.stored import StoredTensor

ARCHITECTURE = "gemma4"
_INNER, _KV_HEADS = "feed_forward_length", "attention.head_count_kv"
_LOCAL_DIM, _LOCAL_VALUES = "attention.key_length_swa", "attention.value_length_swa"
_ROTARY_DIM, _LOCAL_ROTARY_DIM = "rope.dimension_count", "rope.dimension_count_swa"
KEYS = frozenset({_INNER, _KV_HEADS, _LOCAL_DIM, _LOCAL_ROTARY_DIM, _LOCAL_VALUES})

_PATTERN = "attention.sliding_window_pattern"
_LAYER_EMBEDDING = "per_layer_token_embd.weight"
_NEVER = 1e29  # what has a wavelength so many times as long does not turn


def gemma4_settings(file: GgufFile, settings: Settings) -> dict[str, Any]:
    """Return the settings that are not a key's value.

    Args:
        file: of this architecture.
        settings: those that are, and which layers have a window.

    Raises:
        CheckpointError: a key is missing, of another type, or asks for what cede does not compute.
    """
    metadata, prefix, layers = file.metadata, f"{ARCHITECTURE}.", settings["num_hidden_layers"]
    types: list[str] = settings.get("layer_types", [])
    if len(types) != layers or not {FULL, SLIDING} <= set(types):
        raise metadata.invalid(f"{prefix}{_PATTERN}", f"does not have both kinds among {layers} layers")
    dim, local_dim = (metadata.require(f"{prefix}{key}", int) for key in ("attention.key_length", _LOCAL_DIM))
    for key in (_LOCAL_ROTARY_DIM, _LOCAL_VALUES):
        if metadata.find(f"{prefix}{key}", int) not in (None, local_dim):
            raise metadata.invalid(f"{prefix}{key}", f"is not the {local_dim} of {prefix}{_LOCAL_DIM}, as it has to be")
    first, shared = types.index(FULL), settings.get("num_kv_shared_layers", 0)
    heads = by_layer(file, _KV_HEADS, layers)
    full_heads, local_heads = heads[first], heads[types.index(SLIDING)]
    if heads != [full_heads if kind == FULL else local_heads for kind in types]:
        raise metadata.invalid(f"{prefix}{_KV_HEADS}", "differs among layers of one kind")
    widths = by_layer(file, _INNER, layers)
    if widths != widths[:1] * (layers - shared) + widths[-1:] * shared or widths[-1] not in (widths[0], 2 * widths[0]):
        raise metadata.invalid(f"{prefix}{_INNER}", "is not one width, and that or twice that where KV is shared")
    embedding = file.tensors.get(_LAYER_EMBEDDING)
    own = {"head_dim": dim, "num_key_value_heads": full_heads}
    return {
        "head_dim": local_dim,
        "num_key_value_heads": local_heads,
        "per_layer_config": dict.fromkeys(full_layers(types), own),
        "attention_k_eq_v": f"blk.{first}.attn_v.weight" not in file.tensors,
        "intermediate_size": widths[0],
        "use_double_wide_mlp": widths[-1] > widths[0],
        "enable_moe_block": settings.get("num_experts", 0) > 0,
        **({} if embedding is None else {"vocab_size_per_layer_input": embedding.shape[0]}),
        "rope_parameters": _ropes(file, settings, dim),
    }


def by_layer(file: GgufFile, key: str, layers: int) -> list[int]:
    """Return a key's value for each layer, of which the file has one for each or one for all.

    Raises:
        CheckpointError: it is missing, or of another type or length.
    """
    metadata, key = file.metadata, f"{file.architecture}.{key}"
    if not isinstance(metadata.get(key), list):
        return [metadata.require(key, int)] * layers
    values = metadata.require_list(key, int)
    if len(values) != layers:
        raise metadata.invalid(key, f"has {len(values)} values for {layers} layers")
    return values


def _ropes(file: GgufFile, settings: Settings, head_dim: int) -> dict[str, Any]:
    """Return the ropes by the layers' kind; where all is seen, the pairs that turn have a factor of 1."""
    if rope.FACTORS not in file.tensors:
        raise file.metadata.invalid(rope.FACTORS, "is missing")
    if file.metadata.find(f"{ARCHITECTURE}.{_ROTARY_DIM}", int) not in (None, head_dim):
        raise file.metadata.invalid(f"{ARCHITECTURE}.{_ROTARY_DIM}", f"is not {head_dim}, as it has to be")
    given = rope.rope_settings(file, head_dim)
    factors = given["rope_scaling"]["short_factor"]
    pairs = factors.count(1.0)
    part = 2 * pairs / head_dim
    if any(factor < _NEVER for factor in factors[pairs:]) or int(part * head_dim // 2) != pairs:
        raise file.metadata.invalid(rope.FACTORS, "is not 1 for the first pairs and 1e30 for the others")
    full = {"rope_type": "proportional", "partial_rotary_factor": part, "rope_theta": given["rope_theta"]}
    return {FULL: full, SLIDING: {"rope_type": "default", "rope_theta": settings["rope_local_base_freq"]}}


# --- 3n -------------------------------------------------------------------------------------------------------------

THREE_N_TENSORS = {
    "altup_correct_coef": "altup.correction_coefs",
    "altup_correct_scale.weight": "altup.correct_output_scale",
    "altup_predict_coef": "altup.prediction_coefs",
    "altup_router": "altup.modality_router",
    "altup_router_norm": "altup.router_norm",
    "laurel_l": "laurel.linear_left",
    "laurel_r": "laurel.linear_right",
    "laurel_post_norm": "laurel.post_laurel_norm",
}
THREE_N_KEYS = {
    "altup.num_inputs": Key("altup_num_inputs", required=True),
    "attention.shared_kv_layers": Key("num_kv_shared_layers", required=True),
    "embedding_length_per_layer_input": Key("hidden_size_per_layer_input", required=True),
    "rope.freq_base_swa": Key("rope_local_base_freq", float),
    "final_logit_softcapping": Key("final_logit_softcapping", float),
}
_DEVIATIONS = "activation_sparsity_scale"
THREE_N_MORE_KEYS = frozenset({_INNER, _DEVIATIONS})

_LAUREL = "blk.0.laurel_l.weight"
_STACKS = ("model.altup_projections.weight", "model.altup_unembed_projections.weight")


def gemma3n_settings(file: GgufFile, settings: Settings) -> dict[str, Any]:
    """Return the settings that are not a key's value: widths, and shares of gates, whose deviations the file has.

    Raises:
        CheckpointError: a key is missing, of another type or length, or a tensor that tells a size is.
    """
    layers = settings["num_hidden_layers"]
    for name in (_LAUREL, _LAYER_EMBEDDING):
        if name not in file.tensors:
            raise CheckpointError(f"{file.metadata.file}: {name} is missing")
    deviations = file.metadata.find_list(f"{file.architecture}.{_DEVIATIONS}", float)
    # In float32, six digits of the share are certain.
    shares = None if deviations is None else [round(NormalDist().cdf(one), 6) for one in deviations]
    return {
        "intermediate_size": by_layer(file, _INNER, layers),
        "activation_sparsity_pattern": shares,
        "laurel_rank": file.tensors[_LAUREL].shape[0],
        "vocab_size_per_layer_input": file.tensors[_LAYER_EMBEDDING].shape[0],
    }


def split_streams(found: dict[str, StoredTensor], settings: Settings) -> dict[str, StoredTensor]:
    """Split the stacks of the streams' projections, `[streams - 1, hidden, hidden]`."""
    split: dict[str, StoredTensor] = {}
    for name, stack in found.items():
        if name not in _STACKS or len(stack.shape) != 3:
            split[name] = stack
            continue
        count, rows, columns = stack.shape
        for index in range(count):
            own = SelectedRows(stack, slice(index * rows, (index + 1) * rows), (rows, columns))
            split[name.replace(".weight", f".{index}.weight")] = own
    return split
