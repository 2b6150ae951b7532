"""Builds the kernels as pip does, with sanitizers and for Arm: each once, whoever asks for it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).parents[5]
SOURCE = ROOT / "runtime" / "devices" / "native" / "source"
BUILT = ROOT / "build" / "tests"  # `build` is setuptools' folder too, and git knows nothing of it
COMMON = ("-std=c++17", "-pthread", "-Wall", "-Wextra", "-Werror")


def compiler() -> str:
    """Return the C++ compiler's name; skip the test where there is none."""
    found = next((name for name in (os.environ.get("CXX"), "c++", "g++") if name and shutil.which(name)), None)
    if found is None:
        pytest.skip("there is no C++ compiler here")
    return found


def build(source: Path, *flags: str, by: str | None = None) -> Path:
    """Compile `source`, unless that was done before; a warning is an error.

    Args:
        source: a file.
        flags: of the compiler.
        by: the compiler; None for this machine's.

    Returns:
        The library or the program, named by what it was made of, so that processes and later runs share it.
    """
    by = by or compiler()
    made_of = hashlib.sha256(repr((by, COMMON, flags)).encode())
    made_of.update(subprocess.run([by, "--version"], capture_output=True, check=True).stdout)
    for file in sorted([*SOURCE.iterdir(), *source.parent.glob("*.[ch]*")]):
        made_of.update(file.read_bytes())
    target = BUILT / f"{source.stem}-{made_of.hexdigest()[:20]}"
    BUILT.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{target}.lock"):
        if not target.exists():
            unfinished = target.with_suffix(".unfinished")
            command = [by, *COMMON, *flags, f"-I{SOURCE}", str(source), "-o", str(unfinished)]
            made = subprocess.run(command, capture_output=True, text=True, check=False)
            assert made.returncode == 0, made.stderr
            unfinished.rename(target)
    return target
