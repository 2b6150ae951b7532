"""Models in one file and in several."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from runtime.checkpoint.gguf.file import GgufFile
from runtime.errors import CheckpointError
from tests.models.gguf.raw import STRING, U32, RawFile, entry, tensor

if TYPE_CHECKING:
    from pathlib import Path

ARCHITECTURE = entry("general.architecture", STRING, "llama")


def _part(number: int, count: int, tensors: list[str], total: int) -> RawFile:
    entries = [
        entry("split.no", U32, number),
        entry("split.count", U32, count),
        entry("split.tensors.count", U32, total),
    ]
    return RawFile(
        [*([] if number else [ARCHITECTURE]), *entries],
        [tensor(name, offset=32 * index) for index, name in enumerate(tensors)],
        bytes(32 * len(tensors)),
    )


def _write_parts(folder: Path, *parts: RawFile) -> Path:
    for index, part in enumerate(parts):
        part.write(folder / f"m-{index + 1:05}-of-{len(parts):05}.gguf")
    return folder / f"m-00001-of-{len(parts):05}.gguf"


def test_one_file_is_a_model(tmp_path: Path) -> None:
    path = RawFile([ARCHITECTURE], [tensor("w")]).write(tmp_path / "m.gguf")
    found = GgufFile.open(path)
    assert found.paths == (path,)
    assert found.architecture == "llama"
    assert list(found.tensors) == ["w"]


def test_a_file_without_an_architecture_is_no_model(tmp_path: Path) -> None:
    path = RawFile(tensors=[tensor("w")]).write(tmp_path / "m.gguf")
    with pytest.raises(CheckpointError, match=r"general\.architecture is missing"):
        _ = GgufFile.open(path).architecture


def test_the_first_of_a_set_stands_for_all(tmp_path: Path) -> None:
    first = _write_parts(tmp_path, _part(0, 3, ["a", "b"], 4), _part(1, 3, ["c"], 4), _part(2, 3, ["d"], 4))
    found = GgufFile.open(first)
    assert [path.name for path in found.paths] == [f"m-{part:05}-of-00003.gguf" for part in (1, 2, 3)]
    assert {name: entry.path.name[2:7] for name, entry in found.tensors.items()} == {
        "a": "00001",
        "b": "00001",
        "c": "00002",
        "d": "00003",
    }


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    first = _write_parts(tmp_path, _part(0, 2, ["a"], 2), _part(1, 2, ["b"], 2))
    (tmp_path / "m-00002-of-00002.gguf").unlink()
    with pytest.raises(CheckpointError, match=r"m-00002-of-00002\.gguf: is missing; the model has 2 parts"):
        GgufFile.open(first)


def test_a_later_part_is_told_of_the_first(tmp_path: Path) -> None:
    _write_parts(tmp_path, _part(0, 2, ["a"], 2), _part(1, 2, ["b"], 2))
    with pytest.raises(CheckpointError, match=r"is a later part of a model; name the first, m-00001-of-00002\.gguf"):
        GgufFile.open(tmp_path / "m-00002-of-00002.gguf")


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (_part(1, 2, ["a"], 2), "a is in m-00001-of-00002.gguf, too"),
        (_part(1, 2, ["b", "c"], 2), "split.tensors.count is 2, and its parts hold 3"),
        (_part(0, 2, ["b"], 2), "does not say that it is part 2 of 2"),
        (RawFile(tensors=[tensor("b")]), "does not say that it is part 2 of 2"),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(second: RawFile, message: str, tmp_path: Path) -> None:
    first = _write_parts(tmp_path, _part(0, 2, ["a"], 2), second)
    with pytest.raises(CheckpointError, match=re.escape(message)):
        GgufFile.open(first)


@pytest.mark.parametrize("count", [2, 1 << 31])
def test_a_part_under_another_name_is_refused(count: int, tmp_path: Path) -> None:
    path = _part(0, count, ["a"], 1).write(tmp_path / "m.gguf")
    with pytest.raises(CheckpointError, match=f"is one of {count} parts, so its name should end in -00001-of-"):
        GgufFile.open(path)
