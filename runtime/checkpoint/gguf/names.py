"""The tensors of a GGUF file under Hugging Face's names, as Hugging Face's files would hold them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from runtime.checkpoint.folder.experts import canonical_experts
from runtime.checkpoint.gguf import rope
from runtime.checkpoint.gguf.architecture import MODEL_TENSORS, PARAMETERS, Architecture
from runtime.checkpoint.gguf.tensors import ChangedTensor, GgufTensor
from runtime.checkpoint.stored import SelectedRows
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from runtime.checkpoint.gguf.file import GgufFile
    from runtime.checkpoint.json_fields import Settings
    from runtime.checkpoint.stored import StoredTensor

_LAYER = re.compile(r"blk\.(?P<layer>0|[1-9]\d{0,5})\.(?P<name>[\w.]+?)(?P<part>\.weight|\.bias|\.scale|)", re.ASCII)
_MODEL = re.compile(r"(?P<name>\w+)(?P<part>\.weight|\.bias)", re.ASCII)
_NOT_ADDED_TO = ".ssm_norm.weight"


def canonical_tensors(file: GgufFile, architecture: Architecture, settings: Settings) -> dict[str, StoredTensor]:
    """Return every tensor of the model by its canonical name.

    Args:
        file: the file.
        architecture: its entry in the table.
        settings: what `read_settings` returned.

    Raises:
        CheckpointError: a tensor has a name that the architecture does not know, a type that is not read, or a shape
            that its rows cannot be put in order for; or two tensors are the same part.
    """
    tensors: dict[str, StoredTensor] = {}
    for name, entry in file.tensors.items():
        if name in rope.TENSORS:
            continue
        tensor: StoredTensor = GgufTensor(entry)
        if architecture.permuted:
            tensor = _in_order(tensor, name, settings)
        if architecture.added_to_norms and name.endswith("norm.weight") and not name.endswith(_NOT_ADDED_TO):
            tensor = ChangedTensor(tensor, tensor.shape, lambda weight: weight - architecture.added_to_norms)
        canonical = _canonical(file, architecture, name)
        if canonical in tensors:
            raise CheckpointError(f"{entry.path}: {name} is {canonical}, which another tensor is, too")
        tensors[canonical] = tensor
    return canonical_experts(architecture.restored(tensors, settings), architecture.name)


def _canonical(file: GgufFile, architecture: Architecture, name: str) -> str:
    if found := _LAYER.fullmatch(name):
        prefix, own, part = f"model.layers.{found['layer']}.", found["name"], found["part"]
        if part and (whole := architecture.tensors.get(own + part)) is not None:
            return prefix + whole
        renamed = architecture.tensors.get(own, "")
        if renamed.endswith(PARAMETERS):
            return prefix + renamed
        if renamed and part in (".weight", ".bias"):
            return prefix + renamed + part
    if (found := _MODEL.fullmatch(name)) and found["name"] in MODEL_TENSORS:
        return f"{MODEL_TENSORS[found['name']]}{found['part']}"
    path = file.tensors[name].path
    raise CheckpointError(f"{path}: {name} belongs to no part of the architecture {file.architecture!r}")


# --- rows in another order ------------------------------------------------------------------------------------------


def _in_order(tensor: StoredTensor, name: str, settings: Settings) -> StoredTensor:
    """Return queries and keys with the halves of each head as Hugging Face has them, and other tensors as they are.

    llama.cpp's conversion puts number `i` of a head's first half beside number `i` of its second.
    """
    found = _LAYER.fullmatch(name)
    if found is None or found["name"] not in ("attn_q", "attn_k"):
        return tensor
    heads = settings["num_attention_heads"]
    if found["name"] == "attn_k":
        heads = settings.get("num_key_value_heads", heads)
    rows = tensor.shape[0]
    if rows % (2 * heads):
        raise CheckpointError(f"{tensor.file}: {name} has {rows} rows, which are not {heads} heads of an even size")
    half = rows // heads // 2
    order = [2 * half * head + 2 * pair + side for head in range(heads) for side in (0, 1) for pair in range(half)]
    return SelectedRows(tensor, order, tensor.shape)
