"""Sources of KV, and texts that share a beginning."""

from __future__ import annotations

from runtime.kv.blocks import BLOCK_TOKENS
from tests.fakes.kv_simulation import text

SYSTEM = text(200, 1)
OTHER = text(150, 2)


def blocks_of(tokens: int) -> int:
    """Return how many of so many tokens are in complete blocks."""
    return tokens // BLOCK_TOKENS * BLOCK_TOKENS
