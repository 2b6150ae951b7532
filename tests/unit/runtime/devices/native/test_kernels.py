"""The library: which is used, why another is not, and what the log says."""

from __future__ import annotations

import ctypes
import logging
from typing import TYPE_CHECKING

import pytest

from runtime.devices.native import kernels as module
from runtime.devices.native.kernels import INTERFACE, Kernels, KernelsMissing, open_kernels
from tests.unit.runtime.devices.native.building import SOURCE, build

if TYPE_CHECKING:
    from pathlib import Path


def test_one_that_was_not_built_is_a_line_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "__file__", str(tmp_path / "kernels.py"))
    with caplog.at_level(logging.INFO, "cede.model"):
        assert open_kernels(1) is None
    assert "want of a C++ compiler" in caplog.text


def test_one_of_another_interface_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "other.cpp"
    source.write_text(f'extern "C" int cede_interface() {{ return {INTERFACE + 1}; }}')
    library = build(source, "-shared", "-fPIC")
    with pytest.raises(KernelsMissing, match="another version"):
        Kernels(library, 1)


def test_one_that_this_processor_does_not_run_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "other.cpp"
    source.write_text(
        f'extern "C" int cede_interface() {{ return {INTERFACE}; }}\n'
        'extern "C" const char* cede_target(int i) { return i == 0 ? "other" : nullptr; }\n'
        'extern "C" int cede_is_supported(int) { return 0; }'
    )
    library = build(source, "-shared", "-fPIC")
    with pytest.raises(KernelsMissing, match="AVX2"):
        Kernels(library, 1)


def test_what_is_no_library_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "none.so"
    path.write_text("text")
    with pytest.raises(KernelsMissing, match="cannot be loaded"):
        Kernels(path, 1)


def test_source_and_interface_are_of_one_number(library: Path) -> None:
    assert ctypes.CDLL(str(library)).cede_interface() == INTERFACE


def test_on_another_kind_of_processor_there_are_none() -> None:
    """As far as that can be tried here: the source is built there, too, and says that it has none."""
    library = build(SOURCE / "layer.cpp", "-shared", "-fPIC", "-DCEDE_WITHOUT_KERNELS")
    with pytest.raises(KernelsMissing, match="AVX2"):
        Kernels(library, 1)


def test_the_best_that_the_processor_has_is_used(library: Path) -> None:
    """Where it has AVX-512, only matrices in AVX2's blocks go through AVX2's kernels."""
    kernels = _kernels_or_skip(library)
    assert kernels.targets[32] in {"avx2", "neon_dot", "neon"}
    assert set(kernels.targets.values()) <= {"amx", "avx512_bf16", "avx512", "avx2", "neon_dot", "neon"}
    for name in kernels.targets.values():
        assert list(Kernels(library, 1, only=name).targets.values()) == [name]


def test_a_target_that_is_not_there_is_none(library: Path) -> None:
    with pytest.raises(KernelsMissing):
        Kernels(library, 1, only="other")


def _kernels_or_skip(library: Path) -> Kernels:
    try:
        return Kernels(library, 1)
    except KernelsMissing as why:
        pytest.skip(str(why))
