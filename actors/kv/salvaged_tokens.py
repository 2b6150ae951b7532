"""Tokens that cancelled generations have left and nobody was served yet: which tokens, not where their KV is.

Tokens are known by their content, as KV is: a piece of at most one block, and the key of all that comes before it.  So
it makes no difference from where a later generation gets them, out of a slot, memory or disk.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.kv.blocks import BLOCK_TOKENS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runtime.common.ownership import TaskOwner
    from runtime.kv.blocks import BlockKey
    from runtime.kv.token_chain import TokenChain

CAPACITY = 16_384  # pieces: a million tokens of KV, remembered in some 20 MiB
MOST_ALIKE = 64  # pieces that go on after the same tokens, so that looking for one costs microseconds
TOKEN_BYTES = array("I").itemsize


@dataclass(slots=True)
class _Piece:
    """Tokens from a block's beginning on, and those of them that nobody was served yet, as bits of their places."""

    packed: bytes
    unserved: int


@dataclass(frozen=True, slots=True)
class _Part:
    """Tokens of one block of a sequence, of which those at the places `first` to `end` are meant."""

    parent: BlockKey
    packed: bytes
    first: int
    end: int

    def alike(self, piece: _Piece) -> int:
        """Return the bits of those tokens that the piece has, too, after the same ones."""
        before = self.first * TOKEN_BYTES
        if piece.packed[:before] != self.packed[:before]:
            return 0
        limit, place = min(len(self.packed), len(piece.packed)), before
        while place < limit and self.packed[place : place + TOKEN_BYTES] == piece.packed[place : place + TOKEN_BYTES]:
            place += TOKEN_BYTES
        return (1 << place // TOKEN_BYTES) - (1 << self.first)


class SalvagedTokens:
    """Counts tokens that a cancelled generation had computed, and that a later one was given instead of computing them.

    Each counts once.  What is computed again meanwhile is not salvaged any more.  The newest are remembered.

    Attributes:
        served: how many there were.

    Args:
        owner: the one task that may change this.
        capacity: pieces of at most a block that are remembered.
    """

    def __init__(self, owner: TaskOwner, capacity: int = CAPACITY) -> None:
        self.served = 0
        self._owner = owner
        self._capacity = capacity
        self._pieces: dict[BlockKey, list[_Piece]] = {}  # by what comes before; the oldest first
        self._count = 0

    def __len__(self) -> int:
        """Return how many tokens nobody was served yet."""
        return sum(piece.unserved.bit_count() for pieces in self._pieces.values() for piece in pieces)

    def leave(self, tokens: TokenChain, ranges: Iterable[tuple[int, int]]) -> None:
        """Note what a cancelled generation has computed of a sequence: the tokens from one place to another."""
        self._owner.check()
        for first, last in ranges:
            end = min(last, len(tokens))
            self.forget(tokens, first, end)  # two may have computed the same at the same time
            for block in range(first // BLOCK_TOKENS, -(-end // BLOCK_TOKENS)):
                self._add(_part(tokens, block, first, end))
        while self._count > self._capacity:
            self._count -= len(self._pieces.pop(next(iter(self._pieces))))

    def take(self, tokens: TokenChain, first: int, end: int) -> None:
        """Count those of a sequence's tokens that are left of somebody: a generation was given their KV."""
        self.served += self._clear(tokens, first, end)

    def forget(self, tokens: TokenChain, first: int, end: int) -> None:
        """Let those of a sequence's tokens not count any more: they were computed."""
        self._clear(tokens, first, end)

    def _add(self, part: _Part) -> None:
        pieces = self._pieces.pop(part.parent, [])
        if len(pieces) == MOST_ALIKE:
            del pieces[0]
            self._count -= 1
        pieces.append(_Piece(part.packed[: part.end * TOKEN_BYTES], (1 << part.end) - (1 << part.first)))
        self._pieces[part.parent] = pieces
        self._count += 1

    def _clear(self, tokens: TokenChain, first: int, end: int) -> int:
        """Return how many of these tokens were still left."""
        self._owner.check()
        found = 0
        if not self._pieces:
            return 0
        for block in range(first // BLOCK_TOKENS, -(-end // BLOCK_TOKENS)):
            if (pieces := self._pieces.get(tokens.parent(block))) is None:
                continue
            part = _part(tokens, block, first, end)
            for piece in pieces:
                taken = piece.unserved & part.alike(piece)
                found += taken.bit_count()
                piece.unserved &= ~taken
            self._keep(part.parent, [piece for piece in pieces if piece.unserved])
        return found

    def _keep(self, parent: BlockKey, pieces: list[_Piece]) -> None:
        self._count -= len(self._pieces[parent]) - len(pieces)
        if pieces:
            self._pieces[parent] = pieces
        else:
            del self._pieces[parent]


def _part(tokens: TokenChain, block: int, first: int, end: int) -> _Part:
    """Return what lies in one block of a part of a sequence."""
    start = block * BLOCK_TOKENS
    last = min(end - start, BLOCK_TOKENS)
    packed = array("I", tokens[start : start + last]).tobytes()
    return _Part(tokens.parent(block), packed, max(first - start, 0), last)
