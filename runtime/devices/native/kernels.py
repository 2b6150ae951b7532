"""The library of kernels: where it is, whether it can run here, and its threads."""

from __future__ import annotations

import ctypes
import logging
import platform
import weakref
from ctypes import addressof
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.devices.native.structures import Draw

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runtime.devices.native.structures import Layer, Marks, Matrix, Stack, Step

INTERFACE = 21
"""That of `source/layer.cpp`: a library that was built of another one is not used."""

NEEDS = "they need an x86-64 processor with AVX2 and FMA, or 64-bit Arm"
MACHINES = ("x86_64", "amd64", "aarch64", "arm64")
NOT_BUILT = (
    "they were not built, for want of a C++ compiler.  Install one (Debian, Ubuntu: apt install g++; macOS: "
    "xcode-select --install), and cede again: pip install --force-reinstall --no-deps ."
)

logger = logging.getLogger("cede.model")


class KernelsMissing(Exception):
    """Reason why the kernels cannot be used here, in words for the log."""


class Kernels:
    """The library, and threads that share its work; they sleep while there is none, and end with this object.

    Args:
        path: of the library.
        threads: the most that work at a time, the caller's among them.
        only: the name of the one target that may be used; None for whatever the processor has.

    Attributes:
        targets: the names of the sets of instructions that are used, by the outputs of a block of their matrices.
        for_many_rows: those blocks of which many rows are better multiplied by `multiply` than with weights in full.
        multiplies_bytes: whether products of bytes are what weights in 8 bits or fewer are best multiplied by.

    Raises:
        KernelsMissing: it cannot be used here.
    """

    def __init__(self, path: Path, threads: int, only: str | None = None) -> None:
        try:
            library = ctypes.CDLL(str(path))
        except OSError as error:
            raise KernelsMissing(f"{path.name} cannot be loaded: {error}") from None
        if library.cede_interface() != INTERFACE:
            raise KernelsMissing(f"{path.name} is of another version: install cede again")
        found = [target for target in _targets(library) if only in (None, target.name)]
        if not found:
            raise KernelsMissing(NEEDS)
        best = {target.block: target for target in reversed(found)}
        self.targets = {block: target.name for block, target in best.items()}
        self.for_many_rows = {block for block, target in best.items() if target.is_for_many_rows}
        self.multiplies_bytes = bool(library.cede_multiplies_bytes())
        self._numbers: dict[int | None, int] = {block: target.number for block, target in best.items()}
        self._numbers[None] = found[0].number
        address, number = ctypes.c_void_p, ctypes.c_int
        opened = _function(library.cede_open, number, returns=address)
        closed = _function(library.cede_close, address)
        product = (address, number, number, address, number)  # context, target, threads, matrix, whether it is bfloat16
        self._run_layer = _function(library.cede_run_layer, address, number, address, address)
        self._run_layers = _function(
            library.cede_run_layers, address, address, number, address, address, ctypes.c_int64, address, returns=number
        )
        self._multiply = _function(library.cede_multiply, *product, address, number, address)
        self._expand = _function(library.cede_expand, *product, address)
        self._draw = _function(
            library.cede_draw, address, number, number, address, number, number, address, address, address
        )
        self._context = opened(threads)
        weakref.finalize(self, closed, self._context)

    def run_layer(self, layer: Layer, step: Step, block: int | None) -> None:
        """Transform the hidden states of all rows of a step in place, and write their KV; one call at a time.

        Where the step has what a recurrent layer's input gives, only what its output takes is computed, and the states.

        Args:
            layer: whose matrices in blocks are all in blocks of one size.
            step: of at most `MOST_ROWS` rows.
            block: outputs of a block, one of `targets`; None where no matrix is in blocks.
        """
        self._run_layer(self._context, self._numbers[block], addressof(layer), addressof(step))

    def target(self, block: int | None) -> int:
        """Return the number of the target for matrices in such blocks; None where no matrix is in blocks."""
        return self._numbers[block]

    def run_layers(self, stack: Stack, first: int, step: Step, marks: Marks, nanoseconds: int) -> list[int]:
        """Run the layers of a stack from number `first` on, as `run_layer` does each; one call at a time.

        Args:
            stack: of layers whose targets are those of their blocks.
            first: where it begins.
            step: as for `run_layer`, with the KV of the stack's first layer that has it.
            marks: the call ends with the layer in which one of them is set.
            nanoseconds: or in which so many have passed.

        Returns:
            Of each layer that ran, one at least, how many nanoseconds after the call it ended.
        """
        ended = (ctypes.c_int64 * (stack.layers - first))()
        ran: int = self._run_layers(
            self._context, addressof(stack), first, addressof(step), addressof(marks), nanoseconds, ended
        )
        return list(ended[:ran])

    def multiply(
        self, matrix: Matrix, x: int, y: int, *, rows: int, is_bfloat16: bool, block: int | None, threads: int
    ) -> None:
        """Multiply rows with a matrix; one call at a time.

        Args:
            matrix: of any kind.
            x: the address of the rows, `[rows, in]`.
            y: the address of the product, float32 `[rows, out]`.
            rows: at most `MOST_ROWS`, but any number where the matrix is of four bits or of bytes.
            is_bfloat16: whether the rows are bfloat16, and the product is rounded to that; else they are float32.
            block: outputs of a block of the matrix, one of `targets`; None where it is not in blocks.
            threads: that work on it at most.
        """
        self._multiply(self._context, self._numbers[block], threads, addressof(matrix), is_bfloat16, x, rows, y)

    def expand(self, matrix: Matrix, to: int, *, is_bfloat16: bool, block: int, threads: int) -> None:
        """Write all weights of a matrix in full, each rounded once, for products of many rows; one call at a time.

        Args:
            matrix: of four bits.
            to: the address of `[in, out]`.
            is_bfloat16: whether that is bfloat16; else it is float32.
            block: outputs of a block of the matrix, one of `targets`.
            threads: that work on it at most.
        """
        self._expand(self._context, self._numbers[block], threads, addressof(matrix), is_bfloat16, to)

    def draw(
        self, logits: int, draws: Sequence[Draw], weights: int, tokens: int, *, vocab_size: int, threads: int
    ) -> None:
        """Draw a token of each row of logits; one call at a time.

        Args:
            logits: the address of float32 `[rows, vocab]`; of a row that is not all finite some token is drawn.
            draws: how, for each row.
            weights: the address of room for float32 `[rows, vocab]`, where each row is in whole blocks of
                `TOKENS_OF_BLOCK`.
            tokens: the address of int64 `[rows]`, which are written.
            vocab_size: tokens of the vocabulary.
            threads: that work on it at most.
        """
        own = (Draw * len(draws))(*draws)
        self._draw(
            self._context,
            self._numbers[None],
            threads,
            logits,
            len(draws),
            vocab_size,
            addressof(own),
            weights,
            tokens,
        )


def open_kernels(threads: int) -> Kernels | None:
    """Return the kernels that were built with this installation; None, with a line in the log, where there are none."""
    try:
        return Kernels(_find(), threads)
    except KernelsMissing as why:
        logger.info("without kernels of its own: %s", why)
        return None


def describe_kernels() -> str:
    """Return which kernels are used here, or why there are none, and what to do."""
    try:
        kernels = Kernels(_find(), 1)
    except KernelsMissing as why:
        return f"none, so decoding on the CPU is slower: {why}"
    return f"built, for {', '.join(sorted(set(kernels.targets.values())))}"


@dataclass(frozen=True, slots=True)
class _Target:
    """A set of instructions: its number in the library, its name, and what is said of its matrices of four bits."""

    number: int
    name: str
    block: int
    is_for_many_rows: bool


def _function(function: Any, *takes: type, returns: type | None = None) -> Any:  # noqa: ANN401
    """Return a function of the library that is told what it takes and returns."""
    function.argtypes, function.restype = takes, returns
    return function


def _targets(library: ctypes.CDLL) -> Iterator[_Target]:
    """Yield what this processor has of what the library has, the best first."""
    library.cede_target.restype = ctypes.c_char_p
    for number in count():
        name: bytes | None = library.cede_target(number)
        if name is None:
            return
        if library.cede_is_supported(number):
            yield _Target(
                number, name.decode(), library.cede_block(number), bool(library.cede_is_for_many_rows(number))
            )


def _find() -> Path:
    """Return the path of the library.  Raises KernelsMissing."""
    places = (Path(__file__).with_name(f"_kernels{suffix}") for suffix in EXTENSION_SUFFIXES)
    found = next((place for place in places if place.exists()), None)
    if found is None:
        raise KernelsMissing(NOT_BUILT if platform.machine().lower() in MACHINES else NEEDS)
    return found
