"""Compilation of Metal's sources by PyTorch, and kernels that are used only where they agree with its operations."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol, TypeVar

import torch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VALUES = {torch.float32: "float", torch.float16: "half", torch.bfloat16: "bfloat"}

logger = logging.getLogger("cede.model")

KernelsT = TypeVar("KernelsT")


class Library(Protocol):
    """Result of `torch.mps.compile_shader`: the kernels, as attributes."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Return what launches a kernel."""


class NoKernels(Exception):
    """Reason why a model's few rows have no kernels here, in words for the log."""


def with_definitions(source: Path, **defined: object) -> str:
    """Return a source with definitions before it, and behind Metal's own headers."""
    lines = (f"#define {name} {what}\n" for name, what in defined.items())
    return f"#include <metal_stdlib>\n{''.join(lines)}\n{source.read_text()}"


def agreeing(
    what: str, compile_kernels: Callable[[], KernelsT], compare: Callable[[KernelsT], float]
) -> KernelsT | None:
    """Return kernels that agree with PyTorch's operations; None, with a line in the log, where they cannot be used.

    They are compared before they are used: they have been run on few Macs, or none.

    Args:
        what: they compute, for the log.
        compile_kernels: makes them.
        compare: returns by how much they differ, and raises where that is too much.
    """
    try:
        kernels = compile_kernels()
        error = compare(kernels)
    except Exception as why:  # whatever PyTorch, Metal's compiler or the comparison raises: there is another way
        logger.info("no Metal kernels for %s of few rows: %s", what, _in_a_line(why))
        return None
    logger.info("%s of few rows by Metal kernels, which differ from PyTorch's by %.1e", what, error)
    return kernels


def _in_a_line(error: Exception) -> str:
    """Return what a compiler says in many lines in one, and no more than the beginning."""
    return " ".join(str(error).split())[:300] or type(error).__name__
