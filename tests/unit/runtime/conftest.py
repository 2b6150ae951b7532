"""The kernels for tests, on processors that have what they take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runtime.native.kernels import Kernels, KernelsMissing
from tests.unit.runtime.native.building import SOURCE, build

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, built."""
    target = tmp_path_factory.mktemp("kernels") / "kernels.so"
    return build(SOURCE / "layer.cpp", target, "-O3", "-shared", "-fPIC")


@pytest.fixture
def kernels(library: Path) -> Kernels:
    """The kernels on three threads, which is more than some machines have cores."""
    try:
        return Kernels(library, threads=3)
    except KernelsMissing as why:
        pytest.skip(str(why))
