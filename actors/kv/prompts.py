"""The names of a prompt's blocks, made before it is admitted: that of a long one takes milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from runtime.kv.token_chain import TokenChain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.kv.blocks import BlockKey

MAX_PIECE_TOKENS = 16_384  # hashed at a time, about half a millisecond; in between others have their turn


async def chains(root: BlockKey, prompts: Sequence[tuple[int, ...]]) -> list[TokenChain]:
    """Return the chain of each prompt; prompts that are one object share one.  Short ones take no checkpoint."""
    known: dict[int, TokenChain] = {}
    hashed = 0
    for prompt in prompts:
        if id(prompt) in known:
            continue
        chain = known[id(prompt)] = TokenChain(root)
        for start in range(0, len(prompt), MAX_PIECE_TOKENS):
            piece = prompt[start : start + MAX_PIECE_TOKENS]
            if hashed + len(piece) > MAX_PIECE_TOKENS:
                await trio.lowlevel.checkpoint()
                hashed = 0
            chain.extend(piece)
            hashed += len(piece)
    return [known[id(prompt)] for prompt in prompts]
