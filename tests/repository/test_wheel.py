"""The sdist and the wheel hold what a user of cede needs, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PACKAGES = ("runtime", "actors", "web", "bench")
BUILT_FROM = ("pyproject.toml", "README.md", "LICENSE")
SUFFIXES = (".py", ".jinja", ".json", ".safetensors", ".cpp", ".h", ".metal")  # of what belongs into it
BUILT = "runtime/devices/native/_kernels"  # where there is a compiler
DATA = (
    "runtime/embedded/",
    "web/openapi/viewer/",
    "web/observability/page/site/",
)  # folders of which all belongs into it
NOT_SERVED = ("bench/training/", "bench/results/")  # how the embedded model was made; what was measured
LARGEST = 16 * 2**20  # bytes; the embedded model is most of it
ADDED = ("PKG-INFO", "setup.cfg", "cede.egg-info/")  # by setuptools
SDIST = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, of a copy of the source, without the network."""
    pytest.importorskip("setuptools", minversion="77")
    source = tmp_path_factory.mktemp("source")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in BUILT_FROM:
        shutil.copy(ROOT / name, source)
    settings = source / "pyproject.toml"
    settings.write_text(settings.read_text().replace('"-O3"', '"-O0"'))  # how fast they are is not looked at here
    folder = tmp_path_factory.mktemp("sdist")
    subprocess.run([sys.executable, "-c", SDIST, str(folder)], check=True, cwd=source, stdout=subprocess.DEVNULL)
    (file,) = folder.iterdir()
    return file


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    """The wheel, built from the sdist, so that this has all that it takes."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", str(sdist), "--wheel-dir", str(folder)]
    subprocess.run([*command, "--quiet", "--no-deps", "--no-build-isolation"], check=True)
    (file,) = folder.glob("*.whl")
    print(f"\n{file.name}: {file.stat().st_size / 2**20:.1f} MiB")
    with zipfile.ZipFile(file) as opened:
        yield opened


def belongs(name: str) -> bool:
    """Return whether a file of the source tree is to be in the wheel."""
    if name.startswith(NOT_SERVED) or "__pycache__" in name:
        return False
    return name.endswith((*SUFFIXES, "/py.typed")) or name.startswith(DATA)


def wanted() -> set[str]:
    """The files of the packages that belong into both."""
    source = [path.relative_to(ROOT).as_posix() for package in PACKAGES for path in (ROOT / package).rglob("*.*")]
    return {name for name in source if belongs(name) and (ROOT / name).is_file()}


def test_the_sdist_holds_the_same_and_what_they_are_built_from(sdist: Path) -> None:
    with tarfile.open(sdist) as opened:
        names = {file.name.partition("/")[2] for file in opened.getmembers() if file.isfile()}
    assert {name for name in names if not name.startswith(ADDED)} == wanted() | set(BUILT_FROM)


def test_it_holds_exactly_the_packages_and_the_embedded_model(wheel: zipfile.ZipFile) -> None:
    found = {name for name in wheel.namelist() if ".dist-info/" not in name and not name.startswith(BUILT)}
    assert found == wanted()


def test_it_holds_the_kernels_where_they_can_be_built(wheel: zipfile.ZipFile) -> None:
    built = [name for name in wheel.namelist() if name.startswith(BUILT)]
    assert len(built) == (shutil.which("c++") is not None)


def test_it_holds_what_serving_needs(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    assert {"runtime/embedded/target/model.safetensors", "runtime/embedded/target/chat_template.jinja"} <= names
    assert {"runtime/py.typed", "actors/py.typed", "web/py.typed"} <= names
    assert [name for name in names if name.startswith("bench/client/") and name.endswith("/report.html.jinja")]
    assert not [name for name in names if name.startswith(("tests/", "docs/", "bench/training/", "bench/results/"))]


def test_it_is_small(wheel: zipfile.ZipFile) -> None:
    assert sum(entry.compress_size for entry in wheel.infolist()) < LARGEST
