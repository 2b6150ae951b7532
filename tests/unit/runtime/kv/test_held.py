"""At each moment the listener knows what slots and tiers hold and can be reached, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from runtime.kv.blocks import BLOCK_TOKENS, Block, BlockKey, block_keys, owner_root
from runtime.kv.held import HeldBlocks
from runtime.kv.token_chain import TokenChain

ROOT = b"root"
DATA = torch.zeros(1)


class Known:
    """A listener that keeps what it is told, and looks at what that says."""

    def __init__(self) -> None:
        self.tokens: dict[BlockKey, tuple[int, ...]] = {}
        self.parents: dict[BlockKey, BlockKey] = {}
        self.calls = 0

    def stored(self, parent: BlockKey, keys: Sequence[BlockKey], token_ids: Sequence[int]) -> None:
        """Add them, each behind its parent."""
        self.calls += 1
        assert len(token_ids) == len(keys) * BLOCK_TOKENS
        for number, key in enumerate(keys):
            assert key not in self.tokens
            assert parent == ROOT or parent in self.tokens
            tokens = tuple(token_ids[number * BLOCK_TOKENS : (number + 1) * BLOCK_TOKENS])
            assert block_keys(parent, tokens) == [key]
            self.tokens[key], self.parents[key], parent = tokens, parent, key

    def removed(self, keys: Sequence[BlockKey]) -> None:
        """Take them out, children first."""
        self.calls += 1
        for key in keys:
            del self.tokens[key], self.parents[key]
            assert key not in self.parents.values()


def tokens(*numbers: int) -> list[int]:
    """So many blocks, each with tokens of its number."""
    return [number for number in numbers for _ in range(BLOCK_TOKENS)]


def block(*numbers: int, private: bool = False, root: BlockKey = ROOT) -> Block:
    """The last of these blocks."""
    keys = [root, *block_keys(root, tokens(*numbers))]
    return Block(keys[-1], keys[-2], tuple(tokens(numbers[-1])), DATA, private=private)


def chain(*numbers: int, root: BlockKey = ROOT) -> TokenChain:
    """A slot's tokens: these blocks and a few tokens more."""
    return TokenChain(root, [*tokens(*numbers), 7, 7])


PATHS = st.lists(st.integers(0, 1), max_size=3).map(tuple)
SOME = st.lists(st.integers(0, 1), min_size=1, max_size=3).map(tuple)


class Holding(RuleBasedStateMachine):
    """Slots and tiers that hold any blocks, in any order, against what that comes to by the definition."""

    def __init__(self) -> None:
        super().__init__()
        self.known = Known()
        self.held = HeldBlocks(ROOT, self.known)
        self.slots: dict[int, tuple[int, ...]] = {}
        self.tiers: dict[str, dict[BlockKey, Block]] = {"ram": {}, "disk": {}}
        self.public: set[BlockKey] = set()

    @rule(slot=st.integers(0, 1), path=PATHS, private=st.booleans())
    def a_slot_has_another_text(self, slot: int, path: tuple[int, ...], private: bool) -> None:
        """Let a slot hold another text."""
        self.slots[slot] = path
        self.held.slot_holds(slot, chain(*path), private=private)
        if not private:
            self.public |= set(block_keys(ROOT, tokens(*path)))

    @rule(path=SOME, tier=st.sampled_from(["ram", "disk"]), private=st.booleans())
    def a_tier_takes_a_block(self, path: tuple[int, ...], tier: str, private: bool) -> None:
        """Let a tier hold a block, perhaps in place of another copy of it."""
        taken = block(*path, private=private)
        self.tiers[tier][taken.key] = taken
        {"ram": self.held.ram_holds, "disk": self.held.disk_holds}[tier](taken)
        if not private:
            self.public.add(taken.key)

    @rule(path=SOME, tier=st.sampled_from(["ram", "disk"]))
    def a_tier_loses_a_block(self, path: tuple[int, ...], tier: str) -> None:
        """Let a tier lose a block."""
        key = block(*path).key
        self.tiers[tier].pop(key, None)
        if tier == "ram":
            self.held.ram_lost(key)
        else:
            self.held.disk_lost([key])

    @invariant()
    def what_is_known_is_what_is_held_and_can_be_reached(self) -> None:
        """Compare."""
        in_slots = {key for path in self.slots.values() for key in block_keys(ROOT, tokens(*path))}
        held = in_slots | self.tiers["ram"].keys() | self.tiers["disk"].keys()
        self.public &= held
        paths: list[tuple[int, ...]] = [(0,), (1,)]
        reached: set[BlockKey] = set()
        while paths:
            path = paths.pop()
            if (key := block(*path).key) in self.public:
                reached.add(key)
                if len(path) < 3:
                    paths += [(*path, 0), (*path, 1)]
        assert self.known.tokens.keys() == reached == self.held.told
        self.held.check_integrity()


TestHolding = Holding.TestCase
TestHolding.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)


def test_what_a_slot_commits_is_told_of_block_by_block() -> None:
    known = Known()
    held = HeldBlocks(ROOT, known)
    text = chain(1)
    held.slot_holds(0, text)
    assert len(known.tokens) == 1
    text.extend(tokens(2, 3))
    held.slot_holds(0, text)
    assert len(known.tokens) == 3
    held.slot_holds(0, text)
    assert known.calls == 2  # nothing has changed


def test_blocks_of_an_owner_who_shares_no_kv_are_not_told_of() -> None:
    known = Known()
    held = HeldBlocks(ROOT, known)
    own = owner_root(ROOT, "alice")
    held.slot_holds(0, chain(1, 2, root=own))
    held.ram_holds(block(1, root=own))
    assert not known.tokens
    held.check_integrity()


def test_the_last_tokens_of_a_preempted_sequence_are_no_block_for_others() -> None:
    known = Known()
    held = HeldBlocks(ROOT, known)
    held.ram_holds(Block(b"tail", ROOT, (1, 2, 3), DATA))
    held.ram_lost(b"tail")
    assert not known.tokens
