"""Pruning of a tree of blocks when some of it was found wrong."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from runtime.kv.blocks import BlockKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Set


def severed(parents: Mapping[BlockKey, BlockKey], roots: Iterable[BlockKey], wrong: Set[BlockKey]) -> set[BlockKey]:
    """Return the blocks that do not hang from a root by an unbroken chain of blocks that are there and not wrong.

    What comes after a wrong block may have been computed on it.  So may what comes after a gap: nobody can say what was
    there.

    Args:
        parents: of each block that there is.
        roots: the parents of first blocks.
        wrong: blocks, whether there or not.
    """
    children: defaultdict[BlockKey, list[BlockKey]] = defaultdict(list)
    for key, parent in parents.items():
        if key not in wrong:
            children[parent].append(key)
    sound, ends = set[BlockKey](), list(roots)
    while ends:
        below = children[ends.pop()]
        sound.update(below)
        ends += below
    return parents.keys() - sound
