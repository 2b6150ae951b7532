"""Declarations of a Metal source's kernels, and what may be handed to them.

A kernel's parameters are pointers into the device's memory, numbers, and what a thread knows of itself; the first two
are arguments of the launch, in that order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

import torch

MOST_ARGUMENTS = 31  # buffers of a kernel
MOST_THREADS = 1024  # of a thread group
DTYPES = {"float": torch.float32, "half": torch.float16, "bfloat": torch.bfloat16, "long": torch.int64}
NUMBERS = {"long": int, "float": float}  # what PyTorch hands on as these

_KERNEL = re.compile(r"^kernel void (\w+)\((.*?)\n\) \{", re.M | re.S)
_POINTER = re.compile(r"device (?:const )?(\w+)\* (\w+)")
_NUMBER = re.compile(r"constant (\w+)& (\w+)")
_OWN = re.compile(r"(\w+) (\w+) \[\[(\w+)\]\]")


class Kind(StrEnum):
    """Kind of a parameter."""

    POINTER = "pointer"
    NUMBER = "number"
    OWN = "own"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel; `attribute` is what a thread knows of itself."""

    kind: Kind
    type: str
    name: str
    attribute: str = ""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel of a source."""

    name: str
    parameters: tuple[Parameter, ...]

    @property
    def arguments(self) -> tuple[Parameter, ...]:
        """Parameters that a launch gives."""
        return tuple(parameter for parameter in self.parameters if parameter.kind != Kind.OWN)

    def check(
        self, arguments: tuple[object, ...], threads: tuple[int, ...], group_size: tuple[int, ...], device: torch.device
    ) -> None:
        """Check what a launch is given, as far as it can be seen without running it.

        Raises:
            AssertionError: PyTorch or Metal would refuse it, or the kernel read something else than it says.
        """
        assert len(arguments) == len(self.arguments) <= MOST_ARGUMENTS, f"{self.name} takes {len(self.arguments)}"
        for parameter, given in zip(self.arguments, arguments, strict=True):
            what = f"{parameter.name} of {self.name}"
            if parameter.kind == Kind.NUMBER:
                assert type(given) is NUMBERS[parameter.type], f"{what} is of {type(given)}"
                continue
            assert isinstance(given, torch.Tensor), f"{what} is no tensor"
            assert given.device == device, f"{what} is on {given.device}"
            assert given.dtype == DTYPES[parameter.type], f"{what} is of {given.dtype}"
            assert given.numel(), f"{what} is empty"
            assert given.stride(-1) == 1 or given.shape[-1] == 1, f"{what} has gaps"
        assert len(threads) == len(group_size) == 3
        assert all(whole > 0 and whole % part == 0 for whole, part in zip(threads, group_size, strict=True))
        assert group_size[0] * group_size[1] * group_size[2] <= MOST_THREADS


def kernels_of(source: str) -> dict[str, Kernel]:
    """Return a source's kernels by name, the types of `#define`s at its head put in."""
    defined = dict(re.findall(r"^#define (\w+) (\w+)$", source, re.M))
    found = {}
    for name, text in _KERNEL.findall(source):
        lines = (line.partition("//")[0].strip().removesuffix(",") for line in text.splitlines())
        found[name] = Kernel(name, tuple(_parameter(line, defined) for line in lines if line))
    assert len(found) == source.count("kernel void"), "a kernel that is written in another way"
    return found


def _parameter(text: str, defined: dict[str, str]) -> Parameter:
    for kind, form in ((Kind.POINTER, _POINTER), (Kind.NUMBER, _NUMBER), (Kind.OWN, _OWN)):
        if match := form.fullmatch(text):
            of, name, *attribute = match.groups()
            return Parameter(kind, defined.get(of, of), name, *attribute)
    raise AssertionError(f"a parameter that is written in another way: {text}")
