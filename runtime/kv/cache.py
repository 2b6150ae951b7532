"""The keys and values of all sequences.

One tensor a layer, `[parts, kv_heads, positions, dim]`, the *pool*: all sequences share its axis of positions.  A
sequence has pages of it, the same in every layer (`runtime.kv.pages`).  Kernels read it page by page; PyTorch's
attention reads a view where the pages lie one behind the other, and else a copy.  A layer with a ring
(`runtime.kv.rings`) has instead what its window needs, for each slot: `[parts, slots, kv_heads, capacity, dim]`.
`ModelConfig.kv_shape` says what the parts are.  A recurrent layer has no positions (`runtime.kv.states`), and no part
in what is moved.

Layers may differ in heads and sizes, and a layer may have the tensor of an earlier one, whose KV it reads.  Outside of
the slots KV has one form for all: pieces of one shape, of which each layer that has KV has one or several.

Neither lengths nor pages are here: where a sequence lies, and what of it is valid, is for the slot manager to say
(DESIGN.md, section 3), with each call.  Rows beyond a committed length do not exist, whatever a dropped segment wrote
there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from runtime.kv.pages import PAGE_TOKENS, PageTable, in_one_piece, pool_positions
from runtime.kv.rings import SLACK, plan_rings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runtime.checkpoint.config import ModelConfig
    from runtime.kv.rings import Rings

# Of the relative difference between two computations of one block's KV: 2e-5 in float32, 0.1 in bfloat16.
TOLERANCE, TOLERANCE_EXPONENT = 4, 0.75


def kv_bytes_per_token(config: ModelConfig, dtype: torch.dtype) -> int:
    """Return the bytes of keys and values that one token takes over all layers."""
    return sum(config.kv_pieces) * math.prod(config.kv_shape) * dtype.itemsize


def kv_bytes(
    config: ModelConfig,
    dtype: torch.dtype,
    *,
    slots: int,
    context: int,
    positions: int | None = None,
    slack: int = SLACK,
) -> int:
    """Return the bytes that a `KVCache` of these sizes takes, with rings of that slack."""
    rings = plan_rings(config.ring_windows, context, slack)
    capacities = [None if rings is None else rings.capacity(layer) for layer in range(config.num_layers)]
    shared = pool_positions(slots, context, positions)
    rows = [shared if capacity is None else slots * capacity for capacity in capacities]
    pieces = sum(own * pieces for own, pieces in zip(rows, config.kv_pieces, strict=True))
    return pieces * math.prod(config.kv_shape) * dtype.itemsize


def kv_agrees(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Tell whether two computations of the same KV agree, as far as their dtype's rounding lets them.

    The same rows computed in other batches differ by rounding; a wrong row differs by about its own size.
    """
    if not first.is_floating_point():
        return torch.equal(first, second)
    difference, size = (first.float() - second.float()).norm(), second.float().norm()
    tolerance = TOLERANCE * torch.finfo(first.dtype).eps ** TOLERANCE_EXPONENT
    return bool(difference <= tolerance * size)


class KVCache:
    """The tensors.  Touched by the device thread during a step or a transfer, and by nobody else.

    Attributes:
        slots: the most sequences that it holds.
        context: the most tokens of one.
        positions: of the pool, which they share, in whole pages.
        one_piece: the pages of what lies in one piece, as rings and copies do.
        rings: of the layers that do not keep all positions.

    Args:
        config: of the model.
        device: where the tensors lie.
        dtype: of keys and values.
        positions: None for as many as all sequences have at their longest.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        slots: int,
        context: int,
        device: torch.device,
        dtype: torch.dtype,
        rings: Rings | None = None,
        positions: int | None = None,
    ) -> None:
        self.slots = slots
        self.context = context
        self.positions = pool_positions(slots, context, positions)
        self.one_piece = in_one_piece(context)
        self.rings = None if rings is None else replace(rings, pieces=config.kv_pieces)
        self._written = [0] * slots  # rows of each that rings were given; see `note_rows`
        self._ring = [None if rings is None else rings.capacity(layer) for layer in range(config.num_layers)]
        self._layers: list[torch.Tensor] = []
        for layer, ring in enumerate(self._ring):
            if (source := config.shape(layer).kv_layer) is not None:
                self._layers.append(self._layers[source])
                continue
            parts, kv_heads, dim = config.layer_kv_shape(layer)
            positions = self.positions if config.kv_pieces[layer] else 0
            places = (kv_heads, positions, dim) if ring is None else (slots, kv_heads, ring, dim)
            self._layers.append(torch.empty(parts, *places, device=device, dtype=dtype))
        self._copied = torch.empty(0, device=device, dtype=dtype)
        self._pieces = config.kv_pieces
        self._piece_shape = config.kv_shape
        self._lie = [_Lie.of(layer, ring) for layer, ring in zip(self._layers, self._ring, strict=True)]
        # Views, [parts, kv_heads, capacity, dim] for each slot; none in the layers of the pool.
        self._rings = [
            () if ring is None else layer.unbind(1) for layer, ring in zip(self._layers, self._ring, strict=True)
        ]

    # --- rows of a step ---------------------------------------------------------------------------------------------

    def note_rows(self, slot: int, start: int, end: int) -> None:
        """Note that a step is about to write the rows from `start` to `end`.

        Whoever plans steps knows what rings still have; this is a second look, so that a step raises before it computes
        anything from rows that are gone.

        Raises:
            RuntimeError: what the rows see is gone.
        """
        if self.rings is None:
            return
        written = self._written[slot] if start else 0
        if start < self.rings.least_length(written) or end - start > self.rings.slack:
            raise RuntimeError(f"rows {start} to {end} of slot {slot} see what its rings, up to {written}, have lost")
        self._written[slot] = max(written, end)

    def write(self, layer: int, slot: int, start: int, keys_values: torch.Tensor, pages: PageTable) -> None:
        """Store `keys_values`, `[parts, kv_heads, rows, dim]`, at the positions from `start` of a sequence.

        One copy a piece: less than half the time of one indexed write of all sequences' rows (bench/LOG.md).
        """
        end, ring = start + keys_values.shape[2], self._ring[layer]
        if ring is None:
            into, first, pieces = self._layers[layer], start, pages.runs(start, end)
        else:
            into, first = self._rings[layer][slot], max(start, end - ring)  # the last rows would overwrite the others
            pieces = _arcs(first, end, ring)
        for position, place, rows in pieces:
            into.narrow(2, place, rows).copy_(keys_values.narrow(2, position - start, rows))

    def read(
        self, layer: int, slot: int, start: int, end: int, pages: PageTable, *, brief: bool = False
    ) -> tuple[torch.Tensor, ...]:
        """Return the parts at positions `start` to `end` of a sequence, `[kv_heads, end - start, dim]` each.

        They are views; where a ring ends between the two, or the pages do not lie one behind the other, copies, which
        the next `brief` read overwrites if they are.
        """
        return self._rows(layer, slot, start, end, pages, brief=brief).unbind()

    def addresses(self, layer: int, slot: int, start: int, pages: PageTable) -> Addresses:
        """Return where kernels find the rows of a sequence that lie from a position on.

        A view for each layer and sequence would keep them waiting (bench/LOG.md).
        """
        own = self._lie[layer]
        first = self._layers[layer].data_ptr()
        if own.ring is None:
            return Addresses(first, first + own.last_part, own.head, start, pages)
        first += (slot * own.slot + start % own.ring) * own.row
        return Addresses(first, first + own.last_part, own.head, 0, self.one_piece)

    def lie_alike(self, first: int, second: int) -> bool:
        """Return whether two layers have the rows of any sequence at the same place of their tensors."""
        return self._lie[first] == self._lie[second]

    def layer(self, layer: int) -> tuple[torch.Tensor, int | None]:
        """Return the tensor of a layer, and the positions of its rings; None where it is of the pool."""
        return self._layers[layer], self._ring[layer]

    def is_whole(self, layer: int, start: int, end: int) -> bool:
        """Return whether kernels can read these positions where they are: no ring ends between them."""
        ring = self._ring[layer]
        return ring is None or start % ring + end - start <= ring

    def _rows(
        self, layer: int, slot: int, start: int, end: int, pages: PageTable, *, brief: bool = False
    ) -> torch.Tensor:
        """Return `[parts, kv_heads, end - start, dim]`."""
        ring = self._ring[layer]
        if ring is None:
            whole, pieces = self._layers[layer], [*pages.runs(start, end)]
        else:
            assert end - start <= ring, (
                f"{end - start} positions of a ring of {ring} are read: a step had too many rows"
            )
            whole, pieces = self._rings[layer][slot], [*_arcs(start, end, ring)]
        views = [whole.narrow(2, place, rows) for _, place, rows in pieces]
        into = self._scratch(views[0], end - start) if brief and len(views) > 1 else None
        return views[0] if len(views) == 1 else torch.cat(views, dim=2, out=into)

    def _scratch(self, like: torch.Tensor, rows: int) -> torch.Tensor:
        """Return room for so many rows of a layer, always the same."""
        parts, heads, _, dim = like.shape
        numbers = parts * heads * rows * dim
        if self._copied.numel() < numbers:  # fresh memory costs as much as the copy
            self._copied = like.new_empty(numbers)
        return self._copied[:numbers].view(parts, heads, rows, dim)

    # --- transfers --------------------------------------------------------------------------------------------------

    def save(self, slot: int, start: int, end: int, pages: PageTable, *, windows: bool = True) -> torch.Tensor:
        """Return a copy in host memory, `[pieces, parts, kv_heads, end - start, dim]`: each layer's, in order.

        Args:
            slot: of the rows.
            start: the first of their positions.
            end: the position after the last.
            pages: of the sequence.
            windows: with the rows of the layers that have a ring, which must still have them; else of the others only.
        """
        layers = self._layers_of(windows=windows)
        parts, kv_heads, dim = self._piece_shape
        shape = (sum(self._pieces_of(layers)), parts, kv_heads, end - start, dim)
        saved = torch.empty(shape, dtype=self.dtype)
        for layer, place in zip(layers, saved.split_with_sizes(self._pieces_of(layers)), strict=True):
            place.copy_(_in_pieces(self._rows(layer, slot, start, end, pages), kv_heads, dim))
        return saved

    def load(self, slot: int, start: int, data: torch.Tensor, pages: PageTable, *, windows: bool = True) -> None:
        """Write what `save` gave to the positions from `start`; to rings if `windows`, and if it has their rows."""
        is_whole = data.shape[0] == sum(self._pieces)
        layers = self._layers_of(windows=is_whole)
        for layer, own in zip(layers, data.split_with_sizes(self._pieces_of(layers)), strict=True):
            if windows or self._ring[layer] is None:
                self.write(layer, slot, start, _from_pieces(own, self._lie[layer].dim), pages)
        if windows and is_whole:
            self._written[slot] = start + data.shape[3]

    def copy(
        self,
        source: int,
        slot: int,
        start: int,
        end: int,
        source_pages: PageTable,
        pages: PageTable,
        least: int | None = 0,
    ) -> None:
        """Copy positions of one sequence to the same ones of another.

        Args:
            source: the slot that has them.
            slot: the other.
            start: the first position to copy, of layers that keep all; what is before it is in pages that both have.
            end: the position after the last.
            source_pages: of the sequence in the slot that has them.
            pages: of the other's.
            least: of rings, all is copied with which a sequence can go on from this length or any up to `end`; nothing
                where it is None.
        """
        for layer in self._layers_of(windows=least is not None):
            first = start
            if self.rings is not None and (window := self.rings.windows[layer]) is not None and least is not None:
                first = max(0, least - window + 1)
            if first < end:
                self.write(layer, slot, first, self._rows(layer, source, first, end, source_pages), pages)
        if least is not None:
            self._written[slot] = end

    def copy_page(self, source: int, target: int, rows: int) -> None:
        """Copy so many rows of one page to another."""
        for layer in self._layers_of(windows=False):
            pool = self._layers[layer]
            pool.narrow(2, target * PAGE_TOKENS, rows).copy_(pool.narrow(2, source * PAGE_TOKENS, rows))

    def _layers_of(self, *, windows: bool) -> list[int]:
        """Return the layers that have KV of their own, in order, all of them or those without a ring."""
        return [layer for layer, ring in enumerate(self._ring) if self._pieces[layer] and (windows or ring is None)]

    def _pieces_of(self, layers: list[int]) -> list[int]:
        """Return how many pieces each of these layers has of a token."""
        return [self._pieces[layer] for layer in layers]

    # --- sizes ------------------------------------------------------------------------------------------------------

    @property
    def row_shape(self) -> tuple[int, int, int, int]:
        """The shape of one token's KV: `(pieces, parts, kv_heads, dim)`; a piece is a layer where these are alike."""
        return (sum(self._pieces), *self._piece_shape)

    @property
    def full_pieces(self) -> int:
        """Return how many of a token's pieces are of layers that keep all positions."""
        return sum(self._pieces_of(self._layers_of(windows=False)))

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of keys and values."""
        return self._layers[0].dtype

    @property
    def bytes_per_token(self) -> int:
        """Bytes of one token's KV, over all layers."""
        return math.prod(self.row_shape) * self.dtype.itemsize

    @property
    def bytes_per_position(self) -> int:
        """Bytes of one position of the pool, over the layers that keep all positions."""
        return self.bytes_per_token * self.full_pieces // self.row_shape[0]

    @property
    def nbytes(self) -> int:
        """Bytes allocated in all."""
        return sum(self._layers[layer].nbytes for layer in self._layers_of(windows=True))


class LentKV(KVCache):
    """The KV of another model, for one that has none of its own: nothing of it is this one's to write or to move.

    Args:
        lender: whose it is.
        layers: the lender's that this model's layers read, one for each.
    """

    def __init__(self, lender: KVCache, layers: Sequence[int]) -> None:
        vars(self).update(vars(lender))
        self._ring = [self._ring[layer] for layer in layers]
        self._layers = [self._layers[layer] for layer in layers]
        self._lie = [self._lie[layer] for layer in layers]
        self._rings = [self._rings[layer] for layer in layers]
        self._pieces = (0,) * len(layers)


@dataclass(frozen=True, slots=True)
class Addresses:
    """Place of a layer's rows of one sequence in memory, for kernels.

    Attributes:
        keys, values: addresses of the first part, and of the last, at place 0.
        head: numbers from one KV head to the next.
        first: the position that the kernels' number 0 stands for.
        pages: of the sequence.
    """

    keys: int
    values: int
    head: int
    first: int
    pages: PageTable


@dataclass(frozen=True, slots=True)
class _Lie:
    """Layout of a layer in memory.

    Attributes:
        ring: positions of its rings; None where it is of the pool.
        row: bytes from one position to the next.
        slot: positions from one ring to the next.
        last_part: bytes from a position's first part to its last.
        head: numbers from one KV head to the next.
        dim: numbers of a head.
    """

    ring: int | None
    row: int
    slot: int
    last_part: int
    head: int
    dim: int

    @staticmethod
    def of(layer: torch.Tensor, ring: int | None) -> _Lie:
        *_, head, row, _ = layer.stride()
        return _Lie(
            ring=ring,
            row=row * layer.itemsize,
            slot=0 if ring is None else layer.stride(1) // row,
            last_part=(layer.shape[0] - 1) * layer.stride(0) * layer.itemsize,
            head=head,
            dim=layer.shape[-1],
        )


def _in_pieces(rows: torch.Tensor, kv_heads: int, dim: int) -> torch.Tensor:
    """Return a layer's rows, `[parts, heads, rows, numbers]`, as `[pieces, parts, kv_heads, rows, dim]`.

    Where a head is longer than a piece's, its numbers are those of several, one after the other.
    """
    parts, heads, count, numbers = rows.shape
    split = rows.view(parts, heads, count, numbers // dim, dim).movedim(3, 2)
    return split.reshape(parts, -1, kv_heads, count, dim).transpose(0, 1)


def _from_pieces(pieces: torch.Tensor, numbers: int) -> torch.Tensor:
    """Return what `_in_pieces` was given, with heads of so many numbers."""
    _, parts, _, count, dim = pieces.shape
    split = pieces.transpose(0, 1).reshape(parts, -1, numbers // dim, count, dim)
    return split.movedim(2, 3).reshape(parts, -1, count, numbers)


def _arcs(start: int, end: int, ring: int) -> Iterator[tuple[int, int, int]]:
    """Yield the pieces in which positions lie in a ring of so many: first position, its place, and how many."""
    while start < end:
        place = start % ring
        rows = min(end - start, ring - place)
        yield start, place, rows
        start += rows
