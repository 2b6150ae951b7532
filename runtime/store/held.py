"""Models that are here: the embedded one, cede's folder, the hub's cache; and removing one of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from runtime.errors import CheckpointError
from runtime.store.catalogue import CATALOGUE, short_name_of
from runtime.store.failures import disk_failures
from runtime.store.gguf_names import quantisation_of
from runtime.store.hub_cache import CachedModel, cached_models, remove_cached
from runtime.store.names import HubName, PackageName, parse_name
from runtime.store.resolve import resolve_model

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.store.folder import KeptModel, ModelsFolder


EMBEDDED = "(embedded)"


class ModelLocation(StrEnum):
    """Location of a model."""

    EMBEDDED = "embedded"
    CEDE = "cede"
    HUB = "hub"


@dataclass(frozen=True, slots=True)
class HeldModel:
    """A model that is here.

    Attributes:
        name: by which it can be served; `EMBEDDED` for what is served without a name.
        location: where it lies.
        path: what is opened: a folder or a GGUF file.
        nbytes: on the disk.
        problem: what is missing of its files; None for nothing.
        stored: what its place knows of it; None for the embedded one.
    """

    name: str
    location: ModelLocation
    path: Path
    nbytes: int
    problem: str | None
    stored: KeptModel | CachedModel | None


def held_models(folder: ModelsFolder) -> list[HeldModel]:
    """Return all models that are here, place by place.

    Raises:
        CheckpointError: cede's folder cannot be read.
    """
    with disk_failures(folder.path):
        return [*_embedded(), *map(_kept, folder.models()), *map(_cached, cached_models())]


def find_held(name: str, folder: ModelsFolder) -> HeldModel:
    """Return the model that a name means, of those that can be removed.

    Raises:
        CheckpointError: there is none, or more than one.
    """
    known = CATALOGUE.get(name.lower())
    parsed = parse_name(name if known is None else known.source)
    removable = [model for model in held_models(folder) if model.stored is not None]
    found = [model for model in removable if _means(parsed, model)]
    if len(found) == 1:
        return found[0]
    where = "neither in cede's folder nor in the hub's cache" if not found else "more than one model"
    shown = ", ".join(model.name for model in found or removable) or "none"
    raise CheckpointError(f"{name}: is {where}; there {'is' if not found else 'are'}: {shown}")


def remove_held(model: HeldModel, folder: ModelsFolder) -> None:
    """Remove a model.  A server that serves it keeps its files until it ends.

    Raises:
        CheckpointError: it cannot be removed.
    """
    if isinstance(model.stored, CachedModel):
        remove_cached(model.stored)
    elif model.stored is not None:
        folder.remove(model.stored)


def _embedded() -> list[HeldModel]:
    try:
        path = resolve_model(None)
    except CheckpointError:  # an installation without it
        return []
    size = sum(file.stat().st_size for file in path.iterdir() if file.is_file())
    return [HeldModel(EMBEDDED, ModelLocation.EMBEDDED, path, size, None, None)]


def _kept(kept: KeptModel) -> HeldModel:
    size = sum(file.stat().st_size for file in kept.folder.iterdir() if file.is_file())
    name = short_name_of(str(kept.package)) or str(kept.package)
    return HeldModel(name, ModelLocation.CEDE, kept.path, size, kept.problem, kept)


def _cached(cached: CachedModel) -> HeldModel:
    return HeldModel(cached.name, ModelLocation.HUB, cached.path, cached.nbytes, cached.problem, cached)


def _means(parsed: object, model: HeldModel) -> bool:
    """Return whether a name, as it was read, means a model."""
    if isinstance(model.stored, CachedModel):
        return isinstance(parsed, HubName) and _names_cached(parsed, model.name)
    if model.stored is None or parsed is None or isinstance(parsed, HubName):
        return False
    package = model.stored.package
    return isinstance(parsed, PackageName) and parsed.means(package)


def _names_cached(wanted: HubName, name: str) -> bool:
    repository, _, file = name.partition(":")
    if repository != wanted.repository:
        return False
    if wanted.tag is None or not file:
        return (wanted.tag or "") == file
    tag, stem = wanted.tag.lower(), file.lower()
    return tag == stem or quantisation_of(file) == tag.upper()
