"""Blocks that lie: their KV was changed on its way out of a slot, and everything about them is in order.

A row is *tainted* by a lie if it came from that block, or was computed after a row that is.  The stand-in model's KV
says by its contents what it is tainted by, so that a lie is followed through slots, memory and disk.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence

from runtime.kv.blocks import BlockKey
from runtime.sampling.random_numbers import splitmix64

Taint = frozenset[int]
CLEAN: Taint = frozenset()


class Lies:
    """All that were told, and which of them an audit has found.

    Args:
        share: of the blocks that are kept.
        seed: of the choice.
    """

    def __init__(self, share: float = 0.0, seed: int = 0) -> None:
        self.found: Taint = CLEAN
        self._share = share
        self._dice = random.Random(seed)
        self._about: list[BlockKey] = []
        self._taints: dict[tuple[int, ...], Taint] = {}  # of blocks by their contents, where that is not clean
        self.keys: set[BlockKey] = set()  # of those blocks

    def __len__(self) -> int:
        """Return how many were told."""
        return len(self._about)

    def save(self, key: BlockKey, rows: Sequence[int], taint: Taint) -> list[int]:
        """Return what a tier is given in place of these rows; mostly the same."""
        told = list(rows)
        if self._share and self._dice.random() < self._share:
            self._about.append(key)
            taint |= {len(self._about)}
            told = [row ^ disguise(taint) for row in rows]
        if taint:
            self._taints[tuple(told)] = taint
            self.keys.add(key)
        return told

    def taint(self, rows: Sequence[int]) -> Taint:
        """Of a block that comes from a tier."""
        return self._taints.get(tuple(rows), CLEAN)

    def find(self, keys: Collection[BlockKey]) -> None:
        """An audit has found KV wrong that came from blocks of these names: no lie about one of them may be left."""
        self.found |= {number for number, key in enumerate(self._about, start=1) if key in keys}


def disguise(taint: Taint) -> int:
    """Return what rows are changed by, whose taint this is."""
    return sum(map(splitmix64, taint)) & 0xFFFF_FFFF_FFFF or 1


def union(taints: Iterable[Taint]) -> Taint:
    """Of rows, that of whatever is computed after them."""
    return CLEAN.union(*set(taints))
