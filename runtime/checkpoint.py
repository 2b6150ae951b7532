"""From what the user called the model to the folder that holds it."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from runtime.errors import CheckpointError

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")

# What a server reads, at the top of the repository: not the same weights again in another form or framework.
_WANTED = ["*.json", "*.safetensors", "*.jinja", "tokenizer*", "merges.txt", "vocab.txt"]
_UNWANTED = ["*/*", "consolidated*"]

_REASONS: tuple[tuple[type[Exception], str], ...] = (  # a class before those it inherits from
    (GatedRepoError, "access to it must be asked for on its page, then log in (hf auth login)"),
    (
        RepositoryNotFoundError,
        "there is no such repository, or it is private, and no such folder here either",
    ),
    (RevisionNotFoundError, "the repository has no main revision"),
    (OfflineModeIsEnabled, "it is not in the local cache, and HF_HUB_OFFLINE forbids downloads"),
    (LocalEntryNotFoundError, "it is not in the local cache, and the hub cannot be reached (or HF_HUB_OFFLINE is set)"),
)


def resolve_model(name: str | None) -> Path:
    """The folder of the model called `name`: a folder, or a repository of the Hugging Face hub (`org/name`).

    None is the small model that comes with cede.  A repository is downloaded into the hub's own cache, or
    found there.

    Raises:
        CheckpointError: there is no such model, or it cannot be had now.
    """
    if name is None:
        return _embedded("target")
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if folder.exists():
        raise CheckpointError(f"{name}: is a file; a model is a folder in the layout of Hugging Face checkpoints")
    if not _HUB_ID.fullmatch(name) or name.startswith("."):
        raise CheckpointError(f"{name}: is neither a folder here nor a hub repository (org/name)")
    return _download(name)


def embedded_draft() -> Path:
    """The folder of the draft model that comes with the embedded one.  Raises CheckpointError."""
    return _embedded("draft")


def _embedded(model: str) -> Path:
    folder = Path(str(files("runtime") / "embedded" / model))
    if not folder.is_dir():
        raise CheckpointError(f"this installation comes without its embedded {model} model: name one with --model")
    return folder


def _download(repository: str) -> Path:
    try:
        return Path(snapshot_download(repository, allow_patterns=_WANTED, ignore_patterns=_UNWANTED))
    except Exception as error:
        # The hub's client lets errors of its HTTP library through, and which library that is has changed.
        raise CheckpointError(f"{repository}: not loaded from the hub: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return reason
    first_line = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__
