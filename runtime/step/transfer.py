"""Transfers of KV and states between slots and host memory, which the device thread carries out between steps.

Those of KV say in which pages the sequence of a slot lies: the device has no record of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from runtime.kv.pages import NO_PAGES, PageTable

if TYPE_CHECKING:
    import torch


KVData: TypeAlias = "torch.Tensor"
"""`[pieces, parts, kv_heads, tokens, dim]`, in host memory; of all layers, or of those without a ring.

Of a state it is uint8 `[bytes]`.
"""


@dataclass(frozen=True, slots=True)
class Save:
    """Copy positions `start` to `end` of a slot to host memory; `windows` says whether of layers with rings, too."""

    slot: int
    start: int
    end: int
    windows: bool = True
    pages: PageTable = NO_PAGES


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """Copy host memory, as a `Save` of the same length returned it, to the positions from `start` of a slot.

    Rings are written only if `windows` says so, and if the data has their rows.
    """

    slot: int
    start: int
    data: KVData
    windows: bool = True
    pages: PageTable = NO_PAGES


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy positions `start` to `end` from one slot to the same positions of another, in pages that it alone has.

    Of rings, all is copied with which the sequence can go on from length `least` or any up to `end`; nothing where that
    is None.
    """

    source: int
    slot: int
    start: int
    end: int
    least: int | None = 0
    source_pages: PageTable = NO_PAGES
    pages: PageTable = NO_PAGES


@dataclass(frozen=True, slots=True)
class CopyPage:
    """Copy the first rows of a page of a slot's sequence to another page, which is to be in its place.

    So is what the drafter has in that page, its KV and the states that it goes on from.
    """

    slot: int
    source: int
    target: int
    rows: int


@dataclass(frozen=True, slots=True)
class SaveState:
    """Copy the state that recurrent layers have of a slot's sequence, in a buffer, to host memory."""

    slot: int
    buffer: int


@dataclass(frozen=True, slots=True, eq=False)
class LoadState:
    """Copy host memory, as a `SaveState` returned it, to a buffer that nobody names, for a slot's sequence."""

    slot: int
    buffer: int
    data: KVData


Transfer: TypeAlias = Save | Load | Copy | CopyPage | SaveState | LoadState
