"""A model's files, whatever their layout, as one thing to be asked: `open_checkpoint`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from runtime.checkpoint.folder.checkpoint import FolderCheckpoint
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import tokenizers

    from runtime.checkpoint.config import ModelConfig
    from runtime.checkpoint.json_fields import Settings
    from runtime.checkpoint.stored import StoredTensor

_LATER_PART = re.compile(r"-(?!00001)\d{5}-of-\d{5}\.gguf$")  # of a split set


class Checkpoint(Protocol):
    """Checkpoint of a model.  Opening one reads its small parts only, and needs no torch.

    Every method raises CheckpointError, naming the file, where that is missing, broken or not supported.
    """

    @property
    def path(self) -> Path:
        """The folder or file that was opened."""

    @property
    def config(self) -> ModelConfig:
        """The model's shape and the switches of its family."""

    @property
    def generation(self) -> Settings:
        """Settings that the files recommend, by the keys of generation_config.json; empty where nothing is."""

    def tensors(self) -> Mapping[str, StoredTensor]:
        """Return every tensor, under its canonical name; their files' headers are read, no weights are."""

    def fingerprint(self) -> str:
        """Hash the model to 64 hex digits: equal fingerprints mean equal keys and values for equal tokens."""

    @property
    def has_tokenizer(self) -> bool:
        """Return whether there is a tokenizer; a draft model may come without one."""

    def tokenizer(self) -> tokenizers.Tokenizer:
        """Return the library's tokenizer, as the files describe it."""

    def token_names(self) -> Mapping[str, str]:
        """Return the spelling of the special tokens, by names such as `bos_token`."""

    def chat_template(self) -> str | None:
        """Return the source of the chat template; None for a base model."""

    def pooling(self) -> str | None:
        """Return how the model was trained to be pooled, in llama.cpp's words, as `mean`; None where nothing says."""

    def response_template(self) -> Settings | None:
        """Return how transformers is to read answers, by its `response_template`; None where the files do not say."""


def open_checkpoint(path: Path) -> Checkpoint:
    """Open the model at `path`.

    Args:
        path: a folder in the layout of Hugging Face checkpoints; a GGUF file, or the first of a split set; or a folder
            that holds exactly one such model and no other.

    Raises:
        CheckpointError: it is not a model that cede loads.
    """
    file = _gguf_file(path)
    if file is None:
        return FolderCheckpoint(path)
    from runtime.checkpoint.gguf.checkpoint import GgufCheckpoint  # the library's import takes a while

    return GgufCheckpoint(file)


def _gguf_file(path: Path) -> Path | None:
    """Return the GGUF file that `path` stands for; None where it is another kind of model."""
    if path.is_file():
        return path
    if (path / "config.json").exists():
        return None
    files = [file for file in sorted(path.glob("*.gguf")) if not _LATER_PART.search(file.name)]
    if len(files) > 1:
        raise CheckpointError(f"{path}: holds several models, {', '.join(file.name for file in files)}: name one")
    return files[0] if files else None
