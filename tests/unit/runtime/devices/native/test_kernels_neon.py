"""The kernels for 64-bit Arm, built by a cross compiler and run by an emulator, against those for AVX2: the same bits.

What AVX2's compute is compared with PyTorch elsewhere.  Compilers may not join a product and a sum here where the
source does not say so, for not all of them do.
"""

from __future__ import annotations

import math
import shutil
import struct
import subprocess
from pathlib import Path

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

Results = list[tuple[str, list[int]]]
"""What is computed, by its name, in bits of float32."""


def results_of(*command: str | Path) -> Results:
    """Run a program, and return what it wrote."""
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr or "this processor does not have it"
    lines = (line.partition(":") for line in ran.stdout.splitlines())
    return [(name, [int(bits, 16) for bits in numbers.split()]) for name, _, numbers in lines]


def build_for_arm(source: str, *flags: str) -> Path:
    return build(HERE / source, *FLAGS, "-static", *flags, by=CROSS_COMPILER)


def differing(own: Results, expected: Results) -> list[str]:
    """Return the names of what is not the same to the bit; what is no number has many bits."""
    assert [(name, len(numbers)) for name, numbers in own] == [(name, len(numbers)) for name, numbers in expected]
    return [
        name
        for (name, numbers), (_, others) in zip(own, expected, strict=True)
        if numbers != others and not all(map(are_same, numbers, others))
    ]


def are_same(x: int, y: int) -> bool:
    return x == y or (math.isnan(number(x)) and math.isnan(number(y)))


def number(bits: int) -> float:
    value: float = struct.unpack("f", struct.pack("I", bits))[0]
    return value


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
    assert differing(results_of(EMULATOR, program), vectors_of_avx2) == []


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
    assert all(math.isfinite(number(bits)) for _, numbers in layers_of_avx2 for bits in numbers)
    own = results_of(EMULATOR, layers_for_arm, target)
    near = [
        (one, other)
        for (_, numbers), (_, others) in zip(own, layers_of_avx2, strict=True)
        for one, other in zip(numbers, others, strict=True)
        if not are_same(one, other)
    ]
    assert len(differing(own, layers_of_avx2)) == len(near) <= 1
    assert all(number(one) == pytest.approx(number(other), rel=1e-4) for one, other in near)


def test_a_processor_without_products_of_bytes_has_the_other_kernels(layers_for_arm: Path) -> None:
    """As those of the first 64-bit Arm processors."""
    first = (EMULATOR, "-cpu", "cortex-a53", str(layers_for_arm))
    assert subprocess.run([*first, "neon_dot"], capture_output=True, check=False).returncode == 1
    assert results_of(*first, "neon")
