"""KV that a sequence must have, by the stand-in model's rule; remembered, so that a look costs only the news."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from actors.kv.waiting_blocks import SlotBlock
from runtime.kv.blocks import BLOCK_TOKENS, Block, BlockKey, block_key, root_key
from runtime.kv.token_chain import TokenChain
from runtime.testing.simulated import chain

ROOT_STATE = 0x5EED
SHAPE = (BLOCK_TOKENS, 4)  # of a block in a tier: the 64 bits of a row as four numbers, exact in float32
ROOT = root_key(fingerprint="5" * 64, dtype="float32", kv_shape=SHAPE)


class Rows:
    """The KV of one place's sequence, from look to look.

    Args:
        blocks: where to note the rows of each complete block, by key.
    """

    def __init__(self, blocks: dict[BlockKey, list[int]]) -> None:
        self._tokens: list[int] = []
        self._rows: list[int] = []
        self._keys = [ROOT]
        self._blocks = blocks

    def of(self, tokens: Sequence[int]) -> list[int]:
        """One row per token; not to be changed."""
        root = tokens.root if isinstance(tokens, TokenChain) else ROOT
        if self._keys[0] != root:
            self._tokens.clear()
            self._rows.clear()
            self._keys[:] = [root]
        known = len(self._tokens)
        if self._tokens != tokens[:known]:
            pairs = zip(self._tokens, tokens, strict=False)
            known = next(
                (place for place, (mine, theirs) in enumerate(pairs) if mine != theirs), min(known, len(tokens))
            )
            del self._tokens[known:]
            del self._rows[known:]
            del self._keys[known // BLOCK_TOKENS + 1 :]
        state = self._rows[-1] if self._rows else ROOT_STATE
        for token_id in tokens[known:]:
            state = chain(state, token_id)
            self._rows.append(state)
            self._tokens.append(token_id)
            if len(self._tokens) % BLOCK_TOKENS == 0:
                self._keys.append(block_key(self._keys[-1], self._tokens[-BLOCK_TOKENS:]))
                self._blocks[self._keys[-1]] = self._rows[-BLOCK_TOKENS:]
        return self._rows


class Truth:
    """Truth of the KV of every sequence and block.  It may outlive a server."""

    def __init__(self) -> None:
        self._blocks: dict[BlockKey, list[int]] = {}
        self._places: dict[Hashable, Rows] = {}

    def rows(self, tokens: Sequence[int], place: Hashable = None) -> list[int]:
        """The KV of a sequence; `place` names where sequences usually go on from one another.  Not to be changed."""
        if place not in self._places:
            self._places[place] = Rows(self._blocks)
        return self._places[place].of(tokens)

    def __contains__(self, key: BlockKey) -> bool:
        """Return whether a block is of some sequence that has been asked for."""
        return key in self._blocks

    def block(self, key: BlockKey) -> list[int]:
        """The KV of a block of some sequence that has been asked for."""
        return self._blocks[key]

    def rows_of(self, block: Block | SlotBlock) -> list[int]:
        """The same of a block that may be the last tokens of a preempted sequence, or a state, which is one row."""
        if not block.token_ids:
            return self._blocks[block.parent][-1:]
        if len(block.token_ids) == BLOCK_TOKENS:
            return self._blocks[block.key]
        before = self._blocks.get(block.parent)
        state = ROOT_STATE if before is None else before[-1]
        return [state := chain(state, token_id) for token_id in block.token_ids]
