"""The RAM tier: what it keeps, and in which order it lets go."""

from __future__ import annotations

import itertools

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from runtime.common.ownership import TaskOwner
from runtime.kv.blocks import Block, BlockKey
from runtime.kv.ram_tier import RamTier
from tests.fakes.kv_blocks import ROOT, chain, make_block

SIZE = make_block(0).nbytes


def kept(tier: RamTier, blocks: list[Block]) -> list[int]:
    """Return which of the blocks are there, by their place."""
    return [place for place, block in enumerate(blocks) if block.key in tier]


def fill(tier: RamTier, blocks: list[Block], now: float = 0.0) -> list[bool]:
    taken = [tier.insert(block, now) for block in blocks]
    tier.check_integrity()
    return taken


def test_a_block_is_found_by_its_key() -> None:
    tier = RamTier(10 * SIZE, TaskOwner())
    first, second = chain(2)
    assert tier.insert(first)
    assert tier.get(first.key) is first
    assert first.key in tier
    assert second.key not in tier
    assert tier.get(second.key) is None
    assert len(tier) == 1


def test_a_block_larger_than_the_budget_evicts_nobody() -> None:
    tier = RamTier(2 * SIZE, TaskOwner())
    fill(tier, [make_block(1), make_block(2)])
    assert not tier.insert(make_block(3, shape=(9, 2, 1, 64, 8)))
    assert len(tier) == 2


def test_the_budget_is_in_bytes_to_the_last_one() -> None:
    for spare, blocks in [(0, 3), (-1, 2), (SIZE - 1, 3)]:
        tier = RamTier(3 * SIZE + spare, TaskOwner())
        fill(tier, [make_block(n) for n in range(5)])
        assert len(tier) == blocks
        assert tier.statistics().bytes <= tier.budget


def test_the_least_recently_used_goes_first() -> None:
    tier = RamTier(3 * SIZE, TaskOwner())
    blocks = [make_block(n) for n in range(5)]
    fill(tier, blocks[:3])
    tier.touch([blocks[0].key])
    fill(tier, blocks[3:4])
    assert kept(tier, blocks) == [0, 2, 3]
    fill(tier, [blocks[2]])  # an insertion is a use too
    fill(tier, blocks[4:])
    assert kept(tier, blocks) == [2, 3, 4]
    assert tier.statistics().evictions == 2


def test_what_was_refused_once_may_have_children_later() -> None:
    tier = RamTier(3 * SIZE, TaskOwner())
    blocks, others = chain(5), [make_block(101), make_block(102)]
    assert fill(tier, blocks[:4]) == [True, True, True, False]
    for block in blocks[:3]:
        tier.drop(block.key)
    fill(tier, others)
    # The others are older than a chain that begins in the middle, for once: its parents may be on disk.
    assert fill(tier, blocks[3:]) == [True, True]
    assert kept(tier, others) == [1]


def test_a_hold_is_never_shortened_and_ends_with_the_block() -> None:
    tier = RamTier(2 * SIZE, TaskOwner())
    blocks = [make_block(n) for n in range(4)]
    fill(tier, blocks[:2])
    tier.keep_until([blocks[0].key], until=10.0)
    tier.keep_until([blocks[0].key], until=5.0)
    fill(tier, blocks[2:3], now=7.0)
    assert kept(tier, blocks) == [0, 2]
    tier.drop(blocks[0].key)
    fill(tier, [blocks[0], blocks[2]])  # back, and older than the other, but held no more
    fill(tier, blocks[3:])
    assert kept(tier, blocks) == [2, 3]


class Naive:
    """The same promises, without any record but a list: least recently used first."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.blocks: list[Block] = []
        self.held: dict[BlockKey, float] = {}
        self.refused: BlockKey | None = None

    def insert(self, block: Block, now: float) -> bool:
        """Keep a block if there can be room; tell whether it is kept."""
        if block in self.blocks:
            self.use(block)
            return True
        while len(self.blocks) >= self.room:
            victim = self.victim(block.parent, now)
            if victim is None or block.parent == self.refused:
                self.refused = block.key
                return False
            self.drop(victim)
        self.blocks.append(block)
        self.refused = None if self.refused == block.key else self.refused
        return True

    def victim(self, parent: BlockKey, now: float) -> Block | None:
        """Return what is to go first."""
        parents = {block.parent for block in self.blocks}
        leaves = [block for block in self.blocks if block.key not in parents and block.key != parent]
        return next(iter(sorted(leaves, key=lambda block: self.held.get(block.key, 0.0) > now)), None)

    def use(self, block: Block) -> None:
        """Note a use."""
        self.blocks.remove(block)
        self.blocks.append(block)

    def drop(self, block: Block) -> None:
        """Forget a block."""
        self.blocks.remove(block)
        self.held.pop(block.key, None)


def tree(depth: int = 4) -> list[Block]:
    """Two sequences that part, and part again, at each block."""
    blocks: list[Block] = []
    parents = [ROOT]
    for level in range(depth):
        below = [make_block(10 * level + n, parent) for parent, n in itertools.product(parents, range(2))]
        blocks += below
        parents = [block.key for block in below]
    return blocks


TREE = tree()
PARENT = {block.key: block.parent for block in TREE}
blocks = st.sampled_from(TREE)


def path(block: Block) -> list[Block]:
    """From the start of its sequence."""
    by_key = {other.key: other for other in TREE}
    found = [block]
    while found[0].parent in by_key:
        found.insert(0, by_key[found[0].parent])
    return found


class AgainstNaive(RuleBasedStateMachine):
    """Any use; the tier holds exactly what the list does, in the same order."""

    @initialize(room=st.integers(0, 9))
    def open(self, room: int) -> None:
        """Choose the room."""
        self.tier = RamTier(room * SIZE + SIZE // 2, TaskOwner())
        self.naive = Naive(room)
        self.now = 0.0

    @rule(block=blocks)
    def insert(self, block: Block) -> None:
        """Insert a block into both."""
        assert self.tier.insert(block, self.now) == self.naive.insert(block, self.now)

    @rule(block=blocks)
    def insert_path(self, block: Block) -> None:
        """Insert a chain into both."""
        for each in path(block):
            assert self.tier.insert(each, self.now) == self.naive.insert(each, self.now)

    @rule(block=blocks)
    def touch(self, block: Block) -> None:
        """Use a chain in both."""
        self.tier.touch([each.key for each in path(block)])
        for each in reversed(path(block)):
            if each in self.naive.blocks:
                self.naive.use(each)

    @rule(block=blocks, seconds=st.integers(0, 3))
    def hold(self, block: Block, seconds: int) -> None:
        """Hold a chain in both."""
        self.tier.keep_until([each.key for each in path(block)], self.now + seconds)
        for each in path(block):
            if each in self.naive.blocks:
                self.naive.held[each.key] = max(self.naive.held.get(each.key, 0.0), self.now + seconds)

    @rule(block=blocks)
    def drop(self, block: Block) -> None:
        """Drop a block from both."""
        self.tier.drop(block.key)
        if block in self.naive.blocks:
            self.naive.drop(block)

    @rule()
    def wait(self) -> None:
        """Let a second pass."""
        self.now += 1.0

    @invariant()
    def agree(self) -> None:
        """Compare the two."""
        if hasattr(self, "tier"):
            self.tier.check_integrity()
            assert list(self.tier) == [block.key for block in self.naive.blocks]
            assert self.tier.statistics().bytes == SIZE * len(self.naive.blocks)


AgainstNaive.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, derandomize=True, database=None, deadline=None
)
test_any_use_against_a_list = AgainstNaive.TestCase


def test_what_is_pinned_stays_whatever_else_wants_its_room() -> None:
    tier = RamTier(2 * SIZE, TaskOwner())
    blocks = chain(2)
    others = [make_block(9), make_block(8)]
    tier.pin([block.key for block in blocks])
    assert fill(tier, blocks) == [True, True]
    assert fill(tier, others) == [False, False]
    tier.unpin([block.key for block in blocks])
    assert tier.pinned == 0
    assert fill(tier, others[:1]) == [True]
