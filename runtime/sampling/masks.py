"""Masks of grammars as a tensor on the device."""

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


def mask_penalties(masks: Sequence[TokenMask], vocabulary: int, table: torch.Tensor) -> torch.Tensor:
    """Return what is added to logits so that only tokens may be drawn which the masks allow.

    The bits go to the device packed, in one copy: 16 KiB for a row of 128k tokens.  They are waited for only here, so
    that is the one thing a step sends behind its layers.  On CUDA the host does not wait for the copy.

    Args:
        masks: one for each row.
        vocabulary: tokens of a row.
        table: `BYTE_PENALTIES` on the device, `[2048]`.

    Returns:
        `[masks, vocabulary]`: 0 where a token may be drawn, else minus infinity.
    """
    row_bytes = WORD_BYTES * -(-vocabulary // (8 * WORD_BYTES))
    packed = bytearray()
    for mask in masks:
        bits = mask.take()
        packed += b"\xff" * row_bytes if bits is None else bits[:row_bytes]
    on_host = torch.frombuffer(packed, dtype=torch.uint8)
    is_cuda = table.device.type == "cuda"
    if is_cuda:
        on_host = on_host.pin_memory()
    sent = on_host.to(table.device, torch.int32, non_blocking=is_cuda)
    penalties = table.view(-1, 8).index_select(0, sent).view(len(masks), 8 * row_bytes)
    return penalties if 8 * row_bytes == vocabulary else penalties.narrow(1, 0, vocabulary)
