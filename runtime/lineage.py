"""Which blocks are left of a tree when some of it was found wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.blocks import BlockKey

if TYPE_CHECKING:
    from collections.abc import Mapping, Set


def severed(parents: Mapping[BlockKey, BlockKey], root: BlockKey, wrong: Set[BlockKey]) -> set[BlockKey]:
    """The blocks that do not hang from the root by an unbroken chain of blocks that are there and not wrong.

    What comes after a wrong block may have been computed on it.  So may what comes after a gap: nobody can say what was
    there.

    Args:
        parents: of each block that there is.
        root: the parent of first blocks.
        wrong: blocks, whether there or not.
    """
    hangs: dict[BlockKey, bool] = {root: True}
    for key in parents:
        path, above = list[BlockKey](), key
        while above not in hangs:
            path.append(above)
            if above in wrong or above not in parents:
                hangs[above] = False
            else:
                above = parents[above]
        hangs.update(dict.fromkeys(path, hangs[above]))
    return {key for key in parents if not hangs[key]}
