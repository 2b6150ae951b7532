"""Masks of grammars on the device."""

from __future__ import annotations

from array import array
from itertools import product
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.sampling.tokens import TokenMask

WORD_BYTES = 4

BYTE_PENALTIES = array("f", (0.0 if byte >> bit & 1 else float("-inf") for byte, bit in product(range(256), range(8))))
"""What each byte of a mask adds to the logits of its eight tokens, byte by byte.

To look a byte up takes a third of the time of taking its bits apart (bench/LOG.md).
"""

KEPT_BYTES = 16 << 20
"""Of the rows that are kept: 1,024 of a vocabulary of 4k tokens, 16 of one of 256k."""

MOST_SEEN = 4096
"""Masks that are known to have come, until all of them are forgotten."""


class MaskPenalties:
    """Penalties that masks add to logits, on one device.

    An output is mostly in one of few states of its grammar, so the same masks come again and again.  The row of one
    that comes for the second time is kept, and its bits are not sent any more.

    Args:
        device: of the logits.
        kept_bytes: of the rows that are kept, the newest; one is always.
    """

    def __init__(self, device: torch.device, kept_bytes: int = KEPT_BYTES) -> None:
        self._device = device
        self._kept_bytes = kept_bytes
        self._table = torch.tensor(BYTE_PENALTIES).to(device).view(-1, 8)
        self._seen: set[int] = set()  # hashes of masks, of which two that are equal only keep a row too early
        self._kept: dict[bytes, torch.Tensor] = {}  # the oldest first

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that are kept."""
        return sum(row.nbytes for row in self._kept.values())

    def rows(self, masks: Sequence[TokenMask], vocabulary: int) -> list[torch.Tensor]:
        """Return what is added to logits so that only tokens may be drawn which the masks allow.

        The bits of those that are not kept go to the device packed, in one copy: 16 KiB for a row of 128k tokens.  They
        are waited for only here, so that is the one thing a step sends behind its layers.  On CUDA the host does not
        wait for the copy.

        Args:
            masks: one for each row.
            vocabulary: tokens of a row; always the same.

        Returns:
            `[vocabulary]` for each mask, not to be changed: 0 where a token may be drawn, else minus infinity.
        """
        row_bytes = WORD_BYTES * -(-vocabulary // (8 * WORD_BYTES))
        taken = [mask.take() for mask in masks]
        wanted = [b"\xff" * row_bytes if bits is None else bits[:row_bytes] for bits in taken]
        kept = [self._kept.get(bits) for bits in wanted]
        missing = [bits for bits, row in zip(wanted, kept, strict=True) if row is None]
        looked_up = iter(self._look_up(missing, vocabulary) if missing else ())
        rows = [next(looked_up) if row is None else row for row in kept]
        if missing:
            for bits, row in zip(wanted, rows, strict=True):
                self._note(bits, row)
        return rows

    def _look_up(self, masks: Sequence[bytes], vocabulary: int) -> Sequence[torch.Tensor]:
        on_host = torch.frombuffer(bytearray().join(masks), dtype=torch.uint8)
        is_cuda = self._device.type == "cuda"
        if is_cuda:
            on_host = on_host.pin_memory()
        sent = on_host.to(self._device, torch.int32, non_blocking=is_cuda)
        penalties = self._table.index_select(0, sent).view(len(masks), -1)
        return penalties.narrow(1, 0, vocabulary).unbind()

    def _note(self, bits: bytes, row: torch.Tensor) -> None:
        """Keep the row of a mask that was seen before, in place of the oldest."""
        number = hash(bits)
        if number not in self._seen:
            if len(self._seen) == MOST_SEEN:
                self._seen.clear()
            self._seen.add(number)
        elif bits not in self._kept:
            while len(self._kept) >= max(1, self._kept_bytes // row.nbytes):
                del self._kept[next(iter(self._kept))]
            self._kept[bits] = row.clone()  # a view would keep the memory of all rows of its step
