"""Laguna in GGUF files: heads of each layer, two ropes, and a gate whose shape tells its kind.

Sources: `LagunaModel` of llama.cpp's conversion modules, which writes the files, and its `laguna.cpp`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.checkpoint.families.layer_kinds import FULL, SLIDING
from runtime.checkpoint.gguf import rope
from runtime.checkpoint.gguf.gemma import by_layer
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from runtime.checkpoint.gguf.file import GgufFile
    from runtime.checkpoint.json_fields import Settings

_HEADS, _DENSE = "attention.head_count", "leading_dense_block_count"
_LOCAL_ROTARY_DIM, _LOCAL_THETA = "rope.dimension_count_swa", "rope.freq_base_swa"
KEYS = frozenset({_HEADS, _DENSE, _LOCAL_ROTARY_DIM})
_GATE = "blk.0.attn_gate.weight"


def laguna_settings(file: GgufFile, settings: Settings) -> dict[str, Any]:
    """Return the settings that are not a key's value.

    Raises:
        CheckpointError: a key is missing, of another type or length, or the tensor that tells a kind is.
    """
    metadata, prefix, layers = file.metadata, f"{file.architecture}.", settings["num_hidden_layers"]
    if _GATE not in file.tensors:
        raise CheckpointError(f"{metadata.file}: {_GATE} is missing")
    heads, dense = by_layer(file, _HEADS, layers), metadata.require(prefix + _DENSE, int)
    head_dim = metadata.require(f"{prefix}attention.key_length", int)
    full = rope.rope_settings(file, head_dim)
    local_dim = metadata.find(prefix + _LOCAL_ROTARY_DIM, int) or head_dim
    slides = settings.get("sliding_window") is not None
    return {
        "num_attention_heads": heads[0],
        "num_attention_heads_per_layer": heads,
        "gating": "per-head" if file.tensors[_GATE].shape[0] == heads[0] else "per-element",
        "mlp_layer_types": ["dense" if layer < dense else "sparse" for layer in range(layers)],
        # Without a list, each fourth layer sees everything, from the first on.
        "layer_types": settings.get(
            "layer_types", [SLIDING if slides and layer % 4 else FULL for layer in range(layers)]
        ),
        "rope_parameters": {
            FULL: {"partial_rotary_factor": 1.0, **full, **full["rope_scaling"]},
            SLIDING: {
                "rope_theta": metadata.find(prefix + _LOCAL_THETA, float) or full["rope_theta"],
                "partial_rotary_factor": local_dim / head_dim,
            },
        },
    }
