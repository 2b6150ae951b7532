"""Rank 0's view of KV whose heads are divided among ranks: it moves all ranks' shares, and shows the whole's shape.

So what is kept of it in host memory, or on disk, is what a model on one device would have kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, Unpack

import torch

from runtime.devices.parallel.share import share_config
from runtime.kv.cache import KVCache
from runtime.step.transfer import Copy, CopyPage, Load, Save

if TYPE_CHECKING:
    from runtime.checkpoint.config import ModelConfig
    from runtime.devices.parallel.lines import Lines
    from runtime.kv.pages import PageTable
    from runtime.kv.rings import Rings

HEADS = 2  # the dimension of `[pieces, parts, kv_heads, tokens, dim]` that is divided


class KVSizes(TypedDict):
    """Sizes that KV is made for, as `KVCache` has them."""

    slots: int
    context: int
    positions: int
    device: torch.device
    dtype: torch.dtype
    rings: Rings | None


class DividedKV(KVCache):
    """Keys and values of rank 0, by which those of the others are moved along.

    The rows of latent attention are not divided: each rank has all of them.

    Args:
        config: of the whole model.
        ranks: how many there are.
        lines: to the other ranks.
        sizes: of the whole.
    """

    def __init__(self, config: ModelConfig, ranks: int, lines: Lines, **sizes: Unpack[KVSizes]) -> None:
        super().__init__(share_config(config, ranks), **sizes)
        self._lines = lines
        self._ranks = ranks
        self._is_divided = config.latent is None
        self._whole_shape = (sum(config.kv_pieces), *config.kv_shape)

    @property
    def row_shape(self) -> tuple[int, int, int, int]:
        """The shape of one token's KV on all ranks together: `(pieces, parts, kv_heads, dim)`."""
        return self._whole_shape

    def save(self, slot: int, start: int, end: int, pages: PageTable, *, windows: bool = True) -> torch.Tensor:
        """Return a copy of all heads in host memory, as `KVCache.save`."""
        if self._is_divided:
            self._lines.tell(Save(slot, start, end, windows, pages))
        own = super().save(slot, start, end, pages, windows=windows)
        return torch.cat([own, *self._lines.answers()], dim=HEADS) if self._is_divided else own

    def load(self, slot: int, start: int, data: torch.Tensor, pages: PageTable, *, windows: bool = True) -> None:
        """Write all heads, each rank its own, as `KVCache.load`."""
        own, *others = data.chunk(self._ranks, dim=HEADS) if self._is_divided else [data] * self._ranks
        self._lines.tell_each([Load(slot, start, share.clone(), windows, pages) for share in others])
        super().load(slot, start, own, pages, windows=windows)

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
        """Copy on all ranks, as `KVCache.copy`."""
        self._lines.tell(Copy(source, slot, start, end, least, source_pages, pages))
        super().copy(source, slot, start, end, source_pages, pages, least)

    def copy_page(self, source: int, target: int, rows: int) -> None:
        """Copy on all ranks, as `KVCache.copy_page`."""
        self._lines.tell(CopyPage(0, source, target, rows))
        super().copy_page(source, target, rows)
