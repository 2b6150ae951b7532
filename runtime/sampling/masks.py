"""Masks of grammars as a tensor on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.sampling.tokens import TokenMask

WORD_BITS = 32


def forbidden_tokens(masks: Sequence[TokenMask], vocabulary: int, device: torch.device) -> torch.Tensor:
    """Return which tokens may not be drawn, bool `[masks, vocabulary]`.

    The bits go to the device packed, in one copy: 16 KiB for a row of 128k tokens.  They are waited for only here, so
    that is the one thing a step sends behind its layers.  On CUDA the host does not wait for the copy.
    """
    words = -(-vocabulary // WORD_BITS)
    packed = bytearray()
    for mask in masks:
        bits = mask.take()
        packed += b"\xff" * (4 * words) if bits is None else bits[: 4 * words]
    on_host = torch.frombuffer(packed, dtype=torch.int32).view(len(masks), words, 1)
    if device.type == "cuda":
        on_host = on_host.pin_memory()
    sent = on_host.to(device, non_blocking=device.type == "cuda")
    places = torch.arange(WORD_BITS, dtype=torch.int32, device=device)
    return ((sent & (torch.ones_like(places) << places)) == 0).flatten(1)[:, :vocabulary]
