"""Builds the kernels, as pip does and with sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[4] / "runtime" / "native" / "source"
COMMON = ("-std=c++17", "-pthread", "-Wall", "-Wextra", "-Werror")


def compiler() -> str:
    """Return the C++ compiler's name; skip the test where there is none."""
    found = next((name for name in (os.environ.get("CXX"), "c++", "g++") if name and shutil.which(name)), None)
    if found is None:
        pytest.skip("there is no C++ compiler here")
    return found


def build(source: Path, target: Path, *flags: str, by: str | None = None) -> Path:
    """Compile `source` to `target`; a warning is an error.

    Args:
        source: a file.
        target: a library or a program.
        flags: of the compiler.
        by: the compiler; None for this machine's.
    """
    command = [by or compiler(), *COMMON, *flags, f"-I{SOURCE}", str(source), "-o", str(target)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return target
