"""Stands in for `torch.mps.compile_shader` on the CPU: a C++ compiler makes a library of the source."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from tests.fakes.devices.metal.source import Kernel, Kind, kernels_of

if TYPE_CHECKING:
    from collections.abc import Callable

INCLUDES = Path(__file__).parent
FLAGS = ("-x", "c++", "-std=c++17", "-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-Wno-attributes", "-Werror")
CPU = torch.device("cpu")


class Shim:
    """Compiles each source once, to the folder.  Skips the test where nothing compiles.

    Attributes:
        launched: the names of the kernels that were run, in order; for tests to clear.
    """

    def __init__(self, folder: Path) -> None:
        self.launched: list[str] = []
        self._folder = folder
        self._compiled: dict[str, Library] = {}

    def __call__(self, source: str) -> Library:
        """Return a source's kernels, as attributes."""
        if source not in self._compiled:
            self._compiled[source] = self._compile(source)
        return self._compiled[source]

    def _compile(self, source: str) -> Library:
        compiler = next((name for name in (os.environ.get("CXX"), "c++", "g++") if name and shutil.which(name)), None)
        if compiler is None or sys.platform != "linux":
            pytest.skip("there is no C++ compiler here, or no Linux")
        kernels = kernels_of(source)
        stem = self._folder / hashlib.sha256(source.encode()).hexdigest()[:16]
        stem.with_suffix(".cpp").write_text(source + "".join(map(_launcher, kernels.values())))
        library = stem.with_suffix(".so")
        command = [compiler, *FLAGS, f"-I{INCLUDES}", str(stem.with_suffix(".cpp")), "-o", str(library)]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode:
            raise SyntaxError(made.stderr)  # as PyTorch does
        return Library(ctypes.CDLL(str(library)), kernels, self.launched)


class Library:
    """A source's kernels; a launch is over when it returns."""

    def __init__(self, library: ctypes.CDLL, kernels: dict[str, Kernel], launched: list[str]) -> None:
        self._library = library
        self._kernels = kernels
        self._launched = launched

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Return what launches a kernel."""
        kernel = self._kernels[name]

        def launch(*arguments: object, threads: tuple[int, ...], group_size: tuple[int, ...]) -> None:
            kernel.check(arguments, threads, group_size, CPU)
            self._launched.append(name)
            held = [_argument(one) for one in arguments]
            pointers = (ctypes.c_void_p * len(held))(*(ctypes.addressof(one) for one in held))
            grid, group = (ctypes.c_uint * 3)(*threads), (ctypes.c_uint * 3)(*group_size)
            assert self._library[f"launch_{name}"](pointers, grid, group) == 0, f"threads of {name} wait in vain"

        return launch


def _argument(given: object) -> ctypes.c_void_p | ctypes.c_int64 | ctypes.c_float:
    """Return memory that holds a tensor's address, or a number."""
    if isinstance(given, torch.Tensor):
        return ctypes.c_void_p(given.data_ptr())
    return ctypes.c_float(given) if isinstance(given, float) else ctypes.c_int64(given)  # type: ignore[arg-type]


def _launcher(kernel: Kernel) -> str:
    """Return a function in C that runs a kernel with arguments behind pointers."""
    passed, number = [], 0
    for parameter in kernel.parameters:
        if parameter.kind == Kind.OWN:
            passed.append(f"thread.{parameter.attribute}")
            continue
        pointer = "*" if parameter.kind == Kind.POINTER else ""
        passed.append(f"*({parameter.type}{pointer}*)arguments[{number}]")
        number += 1
    return f"""
extern "C" int launch_{kernel.name}(void** given, const uint3* grid, const uint3* group) {{
    static void** arguments;
    arguments = given;
    return gpu::run([](const gpu::Thread& thread) {{ {kernel.name}({", ".join(passed)}); }}, *grid, *group);
}}
"""
