"""Gemma 3n in GGUF files: how the gates of a layer are cut, and what is stacked there.

Sources: `Gemma3NModel` of llama.cpp's conversion modules, which writes the files, and its `gemma3n.cpp`.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from runtime.checkpoint.gguf.architecture import Key
from runtime.checkpoint.gguf.gemma4 import INNER, LAYER_EMBEDDING, by_layer
from runtime.checkpoint.stored import SelectedRows
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from runtime.checkpoint.gguf.file import GgufFile
    from runtime.checkpoint.json_fields import Settings
    from runtime.checkpoint.stored import StoredTensor

TENSORS = {
    "altup_correct_coef": "altup.correction_coefs",
    "altup_correct_scale.weight": "altup.correct_output_scale",
    "altup_predict_coef": "altup.prediction_coefs",
    "altup_router": "altup.modality_router",
    "altup_router_norm": "altup.router_norm",
    "laurel_l": "laurel.linear_left",
    "laurel_r": "laurel.linear_right",
    "laurel_post_norm": "laurel.post_laurel_norm",
}
KEYS = {
    "altup.num_inputs": Key("altup_num_inputs", required=True),
    "attention.shared_kv_layers": Key("num_kv_shared_layers", required=True),
    "embedding_length_per_layer_input": Key("hidden_size_per_layer_input", required=True),
    "rope.freq_base_swa": Key("rope_local_base_freq", float),
    "final_logit_softcapping": Key("final_logit_softcapping", float),
}
_DEVIATIONS = "activation_sparsity_scale"
MORE_KEYS = frozenset({INNER, _DEVIATIONS})

_LAUREL = "blk.0.laurel_l.weight"
_STACKS = ("model.altup_projections.weight", "model.altup_unembed_projections.weight")


def gemma3n_settings(file: GgufFile, settings: Settings) -> dict[str, Any]:
    """Return the settings that are not a key's value: widths, and shares of gates, whose deviations the file has.

    Raises:
        CheckpointError: a key is missing, of another type or length, or a tensor that tells a size is.
    """
    layers = settings["num_hidden_layers"]
    for name in (_LAUREL, LAYER_EMBEDDING):
        if name not in file.tensors:
            raise CheckpointError(f"{file.metadata.file}: {name} is missing")
    deviations = file.metadata.find_list(f"{file.architecture}.{_DEVIATIONS}", float)
    # In float32, six digits of the share are certain.
    shares = None if deviations is None else [round(NormalDist().cdf(one), 6) for one in deviations]
    return {
        "intermediate_size": by_layer(file, INNER, layers),
        "activation_sparsity_pattern": shares,
        "laurel_rank": file.tensors[_LAUREL].shape[0],
        "vocab_size_per_layer_input": file.tensors[LAYER_EMBEDDING].shape[0],
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
