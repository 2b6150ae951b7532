"""A GGUF file, or the first of a split set, as a checkpoint."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from gguf.constants import Keys

from runtime.checkpoint.config import ModelConfig, parse_config
from runtime.checkpoint.families.table import FAMILIES
from runtime.checkpoint.fingerprint import hash_files
from runtime.checkpoint.gguf.file import GgufFile
from runtime.checkpoint.gguf.names import canonical_tensors
from runtime.checkpoint.gguf.settings import find_architecture, read_generation, read_pooling, read_settings
from runtime.checkpoint.gguf.tokenizer import rebuild_tokenizer
from runtime.checkpoint.gguf.vocabulary import chat_template, token_names
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import tokenizers

    from runtime.checkpoint.json_fields import Settings
    from runtime.checkpoint.stored import StoredTensor


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
