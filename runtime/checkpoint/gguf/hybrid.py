"""Models with recurrent layers in GGUF files: which layers these are, and what the conversion did to their tensors.

Sources: llama.cpp's conversion modules `lfm2.py` and `qwen.py`, which write the files, and its `lfm2.cpp`,
`qwen3next.cpp` and `qwen35.cpp`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from runtime.checkpoint.gguf.tensors import ChangedTensor
from runtime.checkpoint.stored import SelectedColumns, SelectedRows

if TYPE_CHECKING:
    from runtime.checkpoint.gguf.file import GgufFile
    from runtime.checkpoint.json_fields import Settings
    from runtime.checkpoint.stored import StoredTensor

_KERNELS = (".conv.conv.weight", ".linear_attn.conv1d.weight")

# --- LFM2 -----------------------------------------------------------------------------------------------------------

_KV_HEADS = "attention.head_count_kv"  # of each layer
LFM2_KEYS = frozenset({_KV_HEADS})


def lfm2_settings(file: GgufFile, settings: Settings) -> dict[str, Any]:
    """Return which layers attend: those with heads of keys, of which all have as many.

    Raises:
        CheckpointError: the key is missing, or of another type or length, or names different numbers of heads.
    """
    key = f"{file.architecture}.{_KV_HEADS}"
    counts = file.metadata.require_list(key, int)
    if len(counts) != settings["num_hidden_layers"]:
        raise file.metadata.invalid(key, f"has {len(counts)} entries for {settings['num_hidden_layers']} layers")
    heads = {count for count in counts if count}
    if len(heads) != 1:
        raise file.metadata.invalid(key, "is not the same number in all layers that attend")
    return {
        "num_key_value_heads": heads.pop(),
        "layer_types": ["full_attention" if count else "conv" for count in counts],
    }


def restored_kernels(found: dict[str, StoredTensor], settings: Settings) -> dict[str, StoredTensor]:
    """Give kernels of convolutions back the dimension of one that the conversion took from them."""
    return {name: _kernel(stored) if name.endswith(_KERNELS) else stored for name, stored in found.items()}


def _kernel(stored: StoredTensor) -> StoredTensor:
    """Return `[channels, width]` as `[channels, 1, width]`."""
    if len(stored.shape) != 2:
        return stored
    channels, width = stored.shape
    return ChangedTensor(stored, (channels, 1, width), lambda kernel: kernel)


# --- Qwen3-Next and Qwen3.5 -----------------------------------------------------------------------------------------

_INNER, _RECURRENT = "ssm.inner_size", "attention.recurrent_layers"
# How many of a head's pairs are rotated by a place in time, height and width of an image: in text, these are the same.
_SECTIONS = "rope.dimension_sections"
QWEN_KEYS = frozenset({_INNER, _RECURRENT, _SECTIONS})

_LAYER = re.compile(r"model\.layers\.(\d+)\.")


def qwen_settings(file: GgufFile, settings: Settings) -> dict[str, Any]:
    """Return the size of a value's head, and which layers attend, where a list says so.

    Raises:
        CheckpointError: a key is missing, of another type or length, or does not go with the others.
    """
    metadata, prefix = file.metadata, f"{file.architecture}."
    inner, heads = metadata.require(prefix + _INNER, int), settings["linear_num_value_heads"]
    if heads < 1 or inner % heads:
        raise metadata.invalid(prefix + _INNER, f"is {inner}, of {heads} heads of values")
    found: dict[str, Any] = {"linear_value_head_dim": inner // heads}
    recurrent, blocks = metadata.find_list(prefix + _RECURRENT, bool), metadata.require(f"{prefix}block_count", int)
    if recurrent is not None:
        if len(recurrent) != blocks:
            raise metadata.invalid(prefix + _RECURRENT, f"has {len(recurrent)} entries for {blocks} layers")
        types = ["linear_attention" if each else "full_attention" for each in recurrent]
        found["layer_types"] = types[: settings["num_hidden_layers"]]
    return found


def restored_delta(found: dict[str, StoredTensor], settings: Settings) -> dict[str, StoredTensor]:
    """Undo what the conversion of Qwen3-Next did to tensors, and name further layers of its module as folders do."""
    restored = {_beside(name, settings): stored for name, stored in found.items()}
    return {name: _numbers(name, stored) for name, stored in restored_kernels(restored, settings).items()}


def restored_tiled_delta(found: dict[str, StoredTensor], settings: Settings) -> dict[str, StoredTensor]:
    """Undo what the conversion of Qwen3.5 did: also, heads of values lie in another order there.

    Each head of keys serves some heads of values.  They follow one another in folders; in these files, the first of
    each head of keys come first, then the second of each, and so on.
    """
    key_heads, heads = settings["linear_num_key_heads"], settings["linear_num_value_heads"]
    keys = 2 * key_heads * settings["linear_key_head_dim"]
    order = [head for first in range(key_heads) for head in range(first, heads, key_heads)]
    parts = {  # the rows before, and the numbers of a head
        "in_proj_qkv.weight": (keys, value := settings["linear_value_head_dim"]),
        "conv1d.weight": (keys, value),
        "in_proj_z.weight": (0, value),
        **dict.fromkeys(("in_proj_b.weight", "in_proj_a.weight", "A_log", "dt_bias"), (0, 1)),
    }

    def in_order(name: str, stored: StoredTensor) -> StoredTensor:
        part = name.partition(".linear_attn.")[2]
        before, size = parts.get(part, (0, value))
        rows = [*range(before), *(before + head * size + one for head in order for one in range(size))]
        if part in parts and stored.shape[0] == len(rows):
            return SelectedRows(stored, rows, stored.shape)
        if part == "out_proj.weight" and stored.shape[-1] == len(rows):
            return SelectedColumns(stored, rows)
        return stored

    return restored_delta({name: in_order(name, stored) for name, stored in found.items()}, settings)


def _beside(name: str, settings: Settings) -> str:
    """Name a tensor of a layer behind the module's first so that it is passed over, as that of a folder is."""
    layer = _LAYER.match(name)
    behind = layer is not None and int(layer[1]) > settings["num_hidden_layers"]
    return f"mtp.{name}" if behind else name


def _numbers(name: str, stored: StoredTensor) -> StoredTensor:
    """Take the logarithm of rates of decay, and make a matrix of one row of the gate of the MLP beside the experts."""
    if name.endswith(".A_log"):
        return ChangedTensor(stored, stored.shape, lambda rate: (-rate).log())
    if name.endswith(".shared_expert_gate.weight") and len(stored.shape) == 1:
        return ChangedTensor(stored, (1, *stored.shape), lambda gate: gate)
    return stored
