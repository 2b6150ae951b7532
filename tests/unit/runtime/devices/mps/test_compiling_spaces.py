"""Clang reads the Metal sources as C++14 with address spaces, as far as it knows Metal."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from runtime.devices.mps import states
from runtime.devices.mps.compiling import VALUES, with_definitions
from runtime.devices.mps.rows import source_of
from tests.fakes.devices import metal

SPACES = Path(metal.__file__).with_name("spaces")
IGNORED = ("-Wno-unknown-attributes", "-Wno-ignored-attributes")


def problems(text: str, folder: Path) -> str:
    """Return what Clang has against a source of kernels."""
    clang = shutil.which("clang++")
    if clang is None:
        pytest.skip("there is no Clang here")
    file = folder / "kernels.cpp"
    file.write_text(text)
    command = [clang, "-std=c++14", "-fsyntax-only", "-Wall", "-Wextra", *IGNORED, f"-I{SPACES}", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("dim", [8, 80, 256])
def test_pointers_keep_their_address_spaces(tmp_path: Path, dtype: torch.dtype, dim: int) -> None:
    assert problems(source_of(dtype, dim), tmp_path) == ""


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_those_into_states_do_too(tmp_path: Path, dtype: torch.dtype) -> None:
    assert problems(with_definitions(states.SOURCE, VALUE=VALUES[dtype], WIDTH=4, KEYS=48), tmp_path) == ""


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("device float* left = parts", "float* left = parts", "cannot initialize a variable of type"),
        ("device const VALUE* key = base", "constant VALUE* key = base", "cannot initialize a variable of type"),
        ("long head = int(own.y) %", "long head = int(own.q) %", "no member named 'q'"),
    ],
)
def test_a_source_that_is_wrong_is_noticed(tmp_path: Path, old: str, new: str, says: str) -> None:
    text = source_of(torch.float32, 8)
    assert old in text
    assert says in problems(text.replace(old, new), tmp_path)
