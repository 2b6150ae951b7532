"""Listing of the hub's cache, which other programs share, and removal from it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from huggingface_hub import constants, scan_cache_dir
from huggingface_hub.errors import CacheNotFound

from runtime.errors import CheckpointError
from runtime.store.gguf_names import SUFFIX, gguf_models, missing_parts

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class CachedModel:
    """A model in the hub's cache.

    Attributes:
        name: `org/name`, or `org/name:file.gguf`.
        path: what is opened: a folder, or a GGUF file.
        nbytes: on the disk.
        problem: what is missing; None for nothing.
    """

    name: str
    path: Path
    nbytes: int
    problem: str | None


def cached_models() -> list[CachedModel]:
    """Return the models in the hub's cache, each repository's newest revision, by name."""
    try:
        repositories = scan_cache_dir(constants.HF_HUB_CACHE).repos
    except (CacheNotFound, OSError, ValueError):  # there is none
        return []
    found: list[CachedModel] = []
    for repository in repositories:
        if repository.repo_type == "model":
            found += _models_of(repository)
    return sorted(found, key=lambda model: model.name)


def remove_cached(model: CachedModel) -> None:
    """Remove a model from the cache: one GGUF file and its parts, or a repository but for GGUF files that it has.

    Raises:
        CheckpointError: it is gone already, or cannot be removed.
    """
    repository, _, file = model.name.partition(":")
    try:
        if file or any(model.path.rglob(f"*{SUFFIX}")):
            _remove_files(_files_of(model.path))
            return
        cache = scan_cache_dir(constants.HF_HUB_CACHE)
        revisions = [r.commit_hash for repo in cache.repos if repo.repo_id == repository for r in repo.revisions]
        cache.delete_revisions(*revisions).execute()
    except (CacheNotFound, OSError, ValueError) as error:
        raise CheckpointError(f"{model.name}: not removed from {constants.HF_HUB_CACHE}: {error}") from error


def _models_of(repository: Any) -> list[CachedModel]:  # noqa: ANN401  # the hub's CachedRepoInfo
    """The models of one repository: its folder of safetensors files, and its GGUF files."""
    revisions = sorted(repository.revisions, key=lambda revision: ("main" in revision.refs, revision.last_modified))
    if not revisions:
        return []
    newest = revisions[-1]
    sizes = {
        Path(file.file_path).relative_to(newest.snapshot_path).as_posix(): file.size_on_disk for file in newest.files
    }
    found = []
    ggufs = gguf_models(sizes)
    for first, files in ggufs.items():
        missing = missing_parts(first, files)
        problem = f"{missing[0]} is missing" if missing else None
        name = f"{repository.repo_id}:{first.rpartition('/')[2]}"
        found.append(CachedModel(name, newest.snapshot_path / first, sum(sizes[file] for file in files), problem))
    if "config.json" in sizes and (not ggufs or any(name.endswith(".safetensors") for name in sizes)):
        inside = sum(size for name, size in sizes.items() if not name.endswith(".gguf"))
        found.append(CachedModel(repository.repo_id, newest.snapshot_path, inside, None))
    return found


def _files_of(model: Path) -> list[Path]:
    """The files of a model in a snapshot: a GGUF file and its parts, or all of a folder that are no GGUF files."""
    if model.is_dir():
        return [path for path in model.rglob("*") if path.is_file() and path.suffix != SUFFIX]
    names = gguf_models(path.name for path in model.parent.iterdir())[model.name]
    return [model.with_name(name) for name in names]


def _remove_files(links: Sequence[Path]) -> None:
    """Unlink files of a snapshot, and their contents where no other revision has them."""
    snapshots = next(folder for folder in links[0].parents if folder.name == "snapshots")
    for link in links:
        blob = link.resolve()
        link.unlink()
        if blob != link and not any(other.resolve() == blob for other in snapshots.rglob("*") if other.is_symlink()):
            blob.unlink(missing_ok=True)
