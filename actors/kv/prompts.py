"""Preparation of a prompt before it is admitted: its length is checked, and its blocks get their names.

To name those of a long one takes milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from runtime.errors import RequestError
from runtime.kv.token_chain import TokenChain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.kv.blocks import BlockKey

MAX_PIECE_TOKENS = 16_384  # hashed at a time, about half a millisecond; in between others have their turn


def check_length(prompt: Sequence[int], context: int) -> None:
    """Raise RequestError if a prompt is empty, or leaves no room in the context."""
    if not prompt:
        raise RequestError("the prompt is empty", param="prompt")
    if len(prompt) >= context:
        raise RequestError(
            f"the prompt has {len(prompt)} tokens; the context of {context} must hold it and at least one more",
            param="prompt",
            code="context_length_exceeded",
        )


def most_tokens(prompt: int, wanted: int | None, context: int) -> int:
    """Return how many tokens the sequence of a prompt of so many may come to have; `wanted` is of its output.

    That is what is reserved for it of the pool: it is granted a slot when there is room for all of them.
    """
    return context if wanted is None else min(prompt + wanted, context)


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
