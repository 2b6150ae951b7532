"""The kernels for tests: the processor's, where it has what they take, and Metal's as C++."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
import torch

from runtime.devices.native.kernels import Kernels, KernelsMissing
from tests.fakes.devices.metal.compiled import Shim
from tests.unit.runtime.devices.native.building import SOURCE, build


@pytest.fixture(scope="session")
def library() -> Path:
    """The library, built."""
    return build(SOURCE / "layer.cpp", "-O3", "-shared", "-fPIC")


ON_ARM = platform.machine() in ("aarch64", "arm64")
LESSER = "neon" if ON_ARM else "avx512"


@pytest.fixture(scope="module", params=[None, LESSER], ids=["best", LESSER])
def kernels(library: Path, request: pytest.FixtureRequest) -> Kernels:
    """The kernels on three threads, which is more than some machines have cores.

    The best for the blocks that PyTorch makes here, and those that do without instructions for bfloat16 or for bytes.
    """
    blocks = {"AVX512": 64, "AVX2": 32}.get(torch.backends.cpu.get_cpu_capability())
    try:
        kernels = Kernels(library, threads=3, only=request.param)
    except KernelsMissing as why:
        pytest.skip(str(why))
    if blocks not in kernels.targets and not ON_ARM:
        pytest.skip("PyTorch has matrices in other blocks here")
    return kernels


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Shim:
    """Return what compiles Metal's kernels for the CPU; it skips the test where it cannot."""
    return Shim(tmp_path_factory.mktemp("metal"))
