"""Models with recurrent layers in GGUF files: which layers these are, and what the conversion did to their tensors.

Sources: llama.cpp's conversion modules `lfm2.py` and `qwen.py`, which write the files, and its `lfm2.cpp`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.checkpoint.gguf.tensors import ChangedTensor

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
