"""Invalidation of blocks whose KV was found wrong, and what it leaves of a tree of blocks."""

from __future__ import annotations

import logging
import random
from collections import defaultdict
from typing import TYPE_CHECKING

from runtime.common.units import counted
from runtime.kv.blocks import BlockKey

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Set

    from actors.kv.tiers import Tiers
    from actors.kv.waiting_blocks import WaitingBlocks
    from runtime.common.ownership import TaskOwner

logger = logging.getLogger("cede.kv")


class Invalidation:
    """Drops blocks that failed in use or in an audit, and counts what was found.

    Attributes:
        audit_share: of the restores, those whose last block is computed again and compared.
        alarms: times that KV was found wrong.  Who has fetched blocks compares it: what was fetched before the last
            alarm may be of what was found wrong.
        invalidated: blocks that were dropped.
        audits: that were made.
        failed_audits: of these.

    Args:
        tiers, waiting: where blocks are.
        root: the parent of first blocks, but for those of owners who share no KV.
        seed: of the choice of audits.
        owner: the one task that may change this.
    """

    def __init__(
        self,
        tiers: Tiers,
        waiting: WaitingBlocks,
        *,
        root: BlockKey,
        audit_share: float,
        seed: int | None,
        owner: TaskOwner,
    ) -> None:
        self.alarms = self.invalidated = self.audits = self.failed_audits = 0
        self._tiers = tiers
        self._waiting = waiting
        self._roots = {root}
        self.audit_share = audit_share
        self._random = random.Random(seed)
        self._owner = owner

    def add_root(self, root: BlockKey) -> None:
        """Note another parent of first blocks; of an owner who has not asked since the start, it is not known."""
        self._owner.check()
        self._roots.add(root)

    def invalidate(self, keys: Collection[BlockKey]) -> None:
        """Drop blocks that were in use when a step failed: one failure is enough.

        What was computed on them stays: a step over it gave finite numbers.
        """
        self._owner.check()
        self.alarms += bool(keys)
        self._waiting.forget_restored(frozenset(keys))
        dropped = self._drop(set(keys))
        if dropped:
            logger.warning("failed in use, and dropped: %s", counted(dropped, "cached block"))

    def invalidate_descendants(self, keys: Collection[BlockKey]) -> None:
        """Drop blocks whose KV an audit found wrong, and whatever may have been computed on them.

        Of what waits in slots that is what stands on them by its own record.  The tiers have no such record: from them
        goes what descends from these blocks by name, though it may have been computed on sound copies of them.
        """
        self._owner.check()
        wrong = frozenset(keys)
        self.alarms += bool(wrong)
        self._waiting.forget_what_stands_on(wrong)
        dropped = self._drop(severed(self._tiers.parents(), self._roots, wrong))
        logger.warning("found wrong, or perhaps computed on such, and dropped: %s", counted(dropped, "cached block"))

    def choose_audit(self) -> bool:
        """Draw whether the last block of a restore is to be computed again and compared."""
        self._owner.check()
        return self._random.random() < self.audit_share

    def note_audit(self, *, agrees: bool) -> None:
        """Count an audit's result; a bad one is an error in the log."""
        self._owner.check()
        self.audits += 1
        if not agrees:
            self.failed_audits += 1
            logger.error("audit: a cached block differs from what the model computes; it and its prefix are dropped")

    def _drop(self, keys: Collection[BlockKey]) -> int:
        dropped = self._tiers.drop(keys)
        self.invalidated += dropped
        return dropped


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
