"""The disk tier under random use: by many threads at once, and step by step beside a plain model of it."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from runtime.kv.blocks import Block, BlockKey
from runtime.kv.disk.files import block_name
from tests.fakes.kv_blocks import FILE_BYTES, LONG, ROOT, assert_same, chain, flip, make_block, open_tier


def test_many_threads_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    blocks = [block for seed in range(6) for block in chain(4, seed=100 * seed)]
    wrong: list[object] = []

    def use(seed: int) -> None:
        generator = random.Random(seed)
        for _ in range(150):
            block = generator.choice(blocks)
            match generator.randrange(6):
                case 0 | 1:
                    tier.put_nowait(block)
                case 2 | 3:
                    loaded = tier.load(block.key)
                    if loaded is not None and not torch.equal(loaded.data, block.data):
                        wrong.append(block)
                case 4:
                    tier.drop([block.key])
                case 5:
                    tier.touch([block.key])

    with open_tier(tmp_path, budget=15 * FILE_BYTES, queue_blocks=8) as tier:
        threads = [threading.Thread(target=use, args=[seed]) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert tier.flush(LONG) == 0
        tier.check_integrity()
        statistics = tier.statistics()
    assert wrong == []
    assert (statistics.write_errors, statistics.rejected) == (0, {})
    assert statistics.written > 0


# --- against a plain model ----------------------------------------------------------------------------------------

POOL = [block for seed in range(3) for block in chain(4, seed=100 * seed)]
BRANCH = [make_block(1000 + index, POOL[2].key) for index in range(2)]
POOL += BRANCH


class TierAgainstDict(RuleBasedStateMachine):
    """After every operation the tier holds exactly what a dict with a naive leaf-first LRU holds."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(os, "fsync", lambda _: None)
        self.folder = Path(tempfile.mkdtemp())
        self.stack = ExitStack()
        self.capacity = 6
        self.held: list[Block] = []  # least recently used first
        self.refused = b""
        self.open()

    def open(self) -> None:
        """Open the tier."""
        budget = self.capacity * FILE_BYTES + FILE_BYTES // 2
        self.tier = self.stack.enter_context(open_tier(self.folder, budget=budget))

    def use(self, key: BlockKey) -> None:
        """Note a use."""
        for block in [block for block in self.held if block.key == key]:
            self.held.remove(block)
            self.held.append(block)

    def evict(self, room: int, parent: BlockKey) -> bool:
        """Make room as the tier should; tell whether there is any."""
        while len(self.held) + room > self.capacity:
            parents = {block.parent for block in self.held}
            leaf = next((block for block in self.held if block.key not in parents), None)
            if leaf is None or room > self.capacity or parent in (leaf.key, self.refused):
                return False
            self.held.remove(leaf)
        return True

    @rule(block=st.sampled_from(POOL))
    def put(self, block: Block) -> None:
        """Put a block into both."""
        assert self.tier.put_nowait(block)
        assert self.tier.flush(LONG) == 0
        if block not in self.held:
            self.use(block.parent)
            if self.evict(1, block.parent):
                self.held.append(block)
            else:
                self.refused = block.key

    @rule(block=st.sampled_from(POOL))
    def load(self, block: Block) -> None:
        """Load a block from both."""
        loaded = self.tier.load(block.key)
        assert (loaded is not None) == (block in self.held)
        if loaded is not None:
            assert_same(loaded, block)
            self.use(block.key)

    @rule(block=st.sampled_from(POOL))
    def drop(self, block: Block) -> None:
        """Drop a block from both."""
        self.tier.drop([block.key])
        if block in self.held:
            self.held.remove(block)

    @rule(start=st.sampled_from([0, 4, 8]), length=st.integers(1, 4))
    def touch(self, start: int, length: int) -> None:
        """Use a chain in both."""
        keys = [block.key for block in POOL[start : start + length]]
        self.tier.touch(keys)
        for key in reversed(keys):
            self.use(key)

    @rule(capacity=st.integers(0, 8))
    def reopen(self, capacity: int) -> None:
        """Close the tier and open it again, with another budget."""
        self.stack.close()
        self.capacity, self.refused = capacity, b""
        self.open()
        self.evict(0, ROOT)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def spoil(self, data: st.DataObject) -> None:
        """Flip a bit of a file."""
        block = data.draw(st.sampled_from(self.held))
        flip(self.folder / ROOT.hex() / block_name(block.key, block.parent))
        assert self.tier.load(block.key) is None
        self.held.remove(block)

    @invariant()
    def agrees(self) -> None:
        """Compare the two."""
        self.tier.flush(LONG)
        self.tier.check_integrity()
        assert {block.key for block in POOL if block.key in self.tier} == {block.key for block in self.held}

    def teardown(self) -> None:
        """Close the tier."""
        self.stack.close()
        self.patch.undo()
        shutil.rmtree(self.folder)


TestTierAgainstDict = TierAgainstDict.TestCase
TestTierAgainstDict.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
