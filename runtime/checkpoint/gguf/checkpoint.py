"""A GGUF file, or the first of a split set, as a checkpoint."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from gguf.constants import Keys

from runtime.checkpoint.config import ModelConfig, parse_config
from runtime.checkpoint.families.table import FAMILIES
from runtime.checkpoint.fingerprint import hash_files
from runtime.checkpoint.folder.experts import canonical_experts
from runtime.checkpoint.gguf import rope
from runtime.checkpoint.gguf.architecture import MODEL_TENSORS, PARAMETERS, Architecture
from runtime.checkpoint.gguf.file import GgufFile
from runtime.checkpoint.gguf.settings import find_architecture, read_generation, read_pooling, read_settings
from runtime.checkpoint.gguf.tensors import ChangedTensor, GgufTensor
from runtime.checkpoint.gguf.tokenizer import rebuild_tokenizer
from runtime.checkpoint.gguf.vocabulary import chat_template, token_names
from runtime.checkpoint.stored import SelectedRows
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import tokenizers

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
        whole = architecture.tensors.get(own + part, "")
        if whole and (part or whole.endswith((".weight", *PARAMETERS))):
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


class GgufCheckpoint:
    """A `Checkpoint` of one file, or of the parts of a split one.

    Attributes:
        path: the file, or the first part.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def config(self) -> ModelConfig:
        """The model that the metadata describe."""
        try:
            return parse_config(self._settings)
        except CheckpointError as error:
            why = str(error).removeprefix("config.json: ")
            raise CheckpointError(why if why.startswith(str(self.path)) else f"{self.path}: {why}") from error

    @cached_property
    def generation(self) -> Settings:
        """The sampling parameters among the metadata, by the keys of generation_config.json."""
        return read_generation(self._file)

    def tensors(self) -> Mapping[str, StoredTensor]:
        """Return every tensor, under Hugging Face's names and as Hugging Face's files would hold it."""
        tensors: Mapping[str, StoredTensor] = canonical_tensors(
            self._file, find_architecture(self._file), self._settings
        )
        for rule in FAMILIES[self.config.architecture].layout:
            tensors = rule(tensors, self.config)
        return tensors

    def fingerprint(self) -> str:
        """Hash the files, but not their names."""
        return hash_files([], self._file.paths, self._spans)

    @property
    def has_tokenizer(self) -> bool:
        """Return whether the metadata have a vocabulary."""
        return Keys.Tokenizer.LIST in self._file.metadata

    def tokenizer(self) -> tokenizers.Tokenizer:
        """Rebuild the tokenizer from the metadata."""
        return rebuild_tokenizer(self._file.metadata)

    def token_names(self) -> Mapping[str, str]:
        """Return the spelling of the special tokens that the metadata name."""
        return token_names(self._file.metadata)

    def chat_template(self) -> str | None:
        """Return the template among the metadata."""
        return chat_template(self._file.metadata)

    def pooling(self) -> str | None:
        """Return what the metadata say."""
        return read_pooling(self._file)

    def response_template(self) -> Settings | None:
        """Return None: the format has no place for one."""
        return None

    @cached_property
    def _file(self) -> GgufFile:
        return GgufFile.open(self.path)

    @cached_property
    def _settings(self) -> Settings:
        return read_settings(self._file)

    def _spans(self, path: Path) -> tuple[int, list[tuple[int, int]]]:
        """Return the size of a file's header, and where its tensors lie."""
        entries = [entry for entry in self._file.tensors.values() if entry.path == path]
        header = min((entry.offset for entry in entries), default=0)
        return header, [(entry.offset, entry.num_bytes) for entry in entries]
