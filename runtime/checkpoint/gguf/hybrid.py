"""Models with recurrent layers in GGUF files: which layers these are, and what the conversion did to their tensors.

Sources: llama.cpp's conversion modules `lfm2.py`, `qwen.py`, `mamba.py`, `falcon_h1.py`, `granite.py`, `nemotron.py`
and `kimi_linear.py`, which write the files, and its sources of these names.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from runtime.checkpoint.gguf import deepseek
from runtime.checkpoint.gguf.tensors import ChangedTensor
from runtime.checkpoint.stored import SelectedColumns, SelectedRows

if TYPE_CHECKING:
    from runtime.checkpoint.gguf.file import GgufFile
    from runtime.checkpoint.json_fields import Settings
    from runtime.checkpoint.stored import StoredTensor

_KERNELS = (".conv.conv.weight", "conv1d.weight")

# --- LFM2 -----------------------------------------------------------------------------------------------------------

_KV_HEADS = "attention.head_count_kv"  # of each layer
LFM2_KEYS = frozenset({_KV_HEADS})


def lfm2_settings(file: GgufFile, settings: Settings) -> dict[str, Any]:
    """Return which layers attend; the others are convolutions."""
    return _by_heads(file, settings, "conv")


def _by_heads(file: GgufFile, settings: Settings, otherwise: str = "linear_attention") -> dict[str, Any]:
    """Return which layers attend: those with heads of keys, of which all have as many.

    Raises:
        CheckpointError: the key is missing, or of another type or length, or names different numbers of heads.
    """
    counts, heads = _by_layer(file, settings, _KV_HEADS, "attend")
    types = ["full_attention" if count else otherwise for count in counts]
    return {"num_key_value_heads": heads, "layer_types": types}


def _by_layer(file: GgufFile, settings: Settings, suffix: str, which: str) -> tuple[list[int], int]:
    """Return the numbers of a key that has one for each layer, and the one that all have that have any."""
    key, blocks = f"{file.architecture}.{suffix}", file.metadata.require(f"{file.architecture}.block_count", int)
    counts = file.metadata.require_list(key, int)
    if len(counts) != blocks:
        raise file.metadata.invalid(key, f"has {len(counts)} entries for {blocks} layers")
    different = {count for count in counts if count}
    if len(different) != 1:
        raise file.metadata.invalid(key, f"is not the same number in all layers that {which}")
    return counts[: settings["num_hidden_layers"]], different.pop()


def restored_kernels(found: dict[str, StoredTensor], settings: Settings) -> dict[str, StoredTensor]:
    """Give kernels of convolutions back the dimension of one that the conversion took from them."""
    return {name: _kernel(stored) if name.endswith(_KERNELS) else stored for name, stored in found.items()}


def _kernel(stored: StoredTensor) -> StoredTensor:
    """Return `[channels, width]`, which may have dimensions of one between, as `[channels, 1, width]`."""
    *channels, width = stored.shape
    return ChangedTensor(stored, (math.prod(channels), 1, width), lambda kernel: kernel)


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
    restored = {_beside(name, settings, 1): stored for name, stored in found.items()}
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


def _beside(name: str, settings: Settings, kept: int) -> str:
    """Name a tensor of a layer behind the module's first few so that it is passed over, as that of a folder is."""
    layer = _LAYER.match(name)
    behind = layer is not None and int(layer[1]) >= settings["num_hidden_layers"] + kept
    return f"mtp.{name}" if behind else name


def _numbers(name: str, stored: StoredTensor) -> StoredTensor:
    """Take the logarithm of rates of decay, and make a matrix of one row of the gate of the MLP beside the experts."""
    if name.endswith(".A_log"):
        return _rate(stored, stored.shape)
    if name.endswith(".shared_expert_gate.weight") and len(stored.shape) == 1:
        return ChangedTensor(stored, (1, *stored.shape), lambda gate: gate)
    return stored


# --- Mamba 2 --------------------------------------------------------------------------------------------------------

GRANITE_KEYS = frozenset({_KV_HEADS})
_WIDTHS = "feed_forward_length"  # of each layer
NEMOTRON_KEYS = frozenset({_KV_HEADS, _WIDTHS, _INNER})


def granite_settings(file: GgufFile, settings: Settings) -> dict[str, Any]:
    """Return which layers attend, whether these rotate, and the width of what all rows go through."""
    rotates = file.metadata.find(f"{file.architecture}.rope.scaling.finetuned", bool) is not False
    found = {**_by_heads(file, settings), "position_embedding_type": "rope" if rotates else "nope"}
    return (
        found if settings["num_local_experts"] else {**found, "shared_intermediate_size": settings["intermediate_size"]}
    )


def nemotron_settings(file: GgufFile, settings: Settings) -> dict[str, Any]:
    """Return what each layer is, one thing alone: attention, an MLP or experts where it has a width, or Mamba 2.

    Raises:
        CheckpointError: a key is missing, of another type or length, or does not go with the others.
    """
    found, key = _by_heads(file, settings), f"{file.architecture}.{_INNER}"
    widths, width = _by_layer(file, settings, _WIDTHS, "have one")
    inner, heads = file.metadata.require(key, int), settings["mamba_num_heads"]
    if heads < 1 or inner % heads:
        raise file.metadata.invalid(key, f"is {inner}, of {heads} heads")
    mlp = "moe" if "n_routed_experts" in settings else "mlp"
    types = [mlp if own else kind for own, kind in zip(widths, found["layer_types"], strict=True)]
    return {**found, "layer_types": types, "intermediate_size": width, "mamba_head_dim": inner // heads}


def restored_mamba(found: dict[str, StoredTensor], settings: Settings) -> dict[str, StoredTensor]:
    """Undo what the conversion did to kernels, rates of decay, what is added of the input, and norms of groups."""
    return {name: _flat(name, stored) for name, stored in restored_kernels(found, settings).items()}


def restored_nemotron(found: dict[str, StoredTensor], settings: Settings) -> dict[str, StoredTensor]:
    """Likewise, and leave out a module for multi-token prediction, as from folders."""
    return restored_mamba({_beside(name, settings, 0): stored for name, stored in found.items()}, settings)


def _flat(name: str, stored: StoredTensor) -> StoredTensor:
    """Make vectors of what lies in rows or columns."""
    if not name.endswith((".mamba.A_log", ".mamba.D", ".mamba.norm.weight")):
        return stored
    size = (math.prod(stored.shape),)
    return _rate(stored, size) if name.endswith(".A_log") else ChangedTensor(stored, size, lambda vector: vector)


def _rate(stored: StoredTensor, shape: tuple[int, ...]) -> StoredTensor:
    """Take the logarithm of rates of decay."""
    return ChangedTensor(stored, shape, lambda rate: (-rate).log())


# --- Kimi Linear ----------------------------------------------------------------------------------------------------

KIMI_KEYS = frozenset({_KV_HEADS}) | deepseek.SIZE_KEYS


def kimi_settings(file: GgufFile, settings: Settings) -> dict[str, Any]:
    """Return which layers attend, over a latent of which sizes, and how many heads the others have: as many."""
    found = {**_by_heads(file, settings), **deepseek.latent_sizes(file)}
    return {**found, "linear_num_heads": settings["num_attention_heads"]}


def restored_kimi(found: dict[str, StoredTensor], settings: Settings) -> dict[str, StoredTensor]:
    """Undo what the conversion did to kernels and rates of decay, and join what it has cut."""
    whole = restored_kernels(deepseek.whole_tensors(found, settings), settings)
    heads = (1, 1, settings["num_attention_heads"], 1)
    return {name: _rate(stored, heads) if name.endswith(".A_log") else stored for name, stored in whole.items()}
