"""The library of kernels: where it is, whether it can run here, and its threads."""

from __future__ import annotations

import ctypes
import logging
import weakref
from ctypes import addressof
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.native.structures import Layer, Step

INTERFACE = 1
"""That of `source/layer.cpp`: a library that was built of another one is not used."""

logger = logging.getLogger("cede.model")


class KernelsMissing(Exception):
    """Why the kernels cannot be used here, in words for the log."""


class Kernels:
    """The library, and threads that share its work; they sleep while there is none, and end with this object.

    Args:
        path: of the library.
        threads: the most that work at a time, the caller's among them.

    Raises:
        KernelsMissing: it cannot be used here.
    """

    def __init__(self, path: Path, threads: int) -> None:
        try:
            library = ctypes.CDLL(str(path))
        except OSError as error:
            raise KernelsMissing(f"{path.name} cannot be loaded: {error}") from None
        if library.cede_interface() != INTERFACE:
            raise KernelsMissing(f"{path.name} is of another version: install cede again")
        if not library.cede_supported():
            raise KernelsMissing("they need a processor with AVX-512 and its bfloat16 instructions")
        library.cede_open.restype = ctypes.c_void_p
        library.cede_open.argtypes = [ctypes.c_int]
        library.cede_close.argtypes = [ctypes.c_void_p]
        self._run_layer = library.cede_run_layer
        self._run_layer.argtypes = [ctypes.c_void_p] * 3
        self._run_layer.restype = None
        self._context = library.cede_open(threads)
        weakref.finalize(self, library.cede_close, self._context)

    def run_layer(self, layer: Layer, step: Step) -> None:
        """Transform the hidden states of all rows of a step in place, and write their KV; one call at a time."""
        self._run_layer(self._context, addressof(layer), addressof(step))


def open_kernels(threads: int) -> Kernels | None:
    """Return the kernels that were built with this installation; None, with a line in the log, where there are none."""
    try:
        return Kernels(_find(), threads)
    except KernelsMissing as why:
        logger.info("without kernels of its own: %s", why)
        return None


def _find() -> Path:
    """Return the path of the library.  Raises KernelsMissing."""
    places = (Path(__file__).with_name(f"_kernels{suffix}") for suffix in EXTENSION_SUFFIXES)
    found = next((place for place in places if place.exists()), None)
    if found is None:
        raise KernelsMissing("they were not built; that takes a C++ compiler while cede is installed")
    return found
