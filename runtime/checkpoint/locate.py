"""From a model's name, as the user gives it, to its folder."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from runtime.checkpoint.hub import NOT_GGUF, download
from runtime.errors import CheckpointError

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def resolve_model(name: str | None) -> Path:
    """Return the folder of a model.

    Args:
        name: a folder, or a repository of the Hugging Face hub (`org/name`), which is downloaded into the hub's own
            cache unless it is there.  None for the small model that comes with cede.

    Raises:
        CheckpointError: there is no such model, or it cannot be downloaded now.
    """
    if name is None:
        return _embedded("target")
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").exists() and any(folder.glob("*.gguf")):
            raise CheckpointError(f"{name}: holds GGUF files; {NOT_GGUF}")
        return folder
    if folder.suffix.lower() == ".gguf":
        raise CheckpointError(f"{name}: is a GGUF file; {NOT_GGUF}")
    if folder.exists():
        raise CheckpointError(f"{name}: is a file; a model is a folder in the layout of Hugging Face checkpoints")
    if not _HUB_ID.fullmatch(name) or name.startswith("."):
        raise CheckpointError(f"{name}: is neither a folder here nor a hub repository (org/name)")
    return download(name)


def embedded_draft() -> Path:
    """Return the folder of the draft model that comes with the embedded one; raises CheckpointError without it."""
    return _embedded("draft")


def _embedded(model: str) -> Path:
    folder = Path(str(files("runtime") / "embedded" / model))
    if not folder.is_dir():
        raise CheckpointError(f"this installation comes without its embedded {model} model: name one with --model")
    return folder
