"""The disk tier: what goes first where room is short, and in which order."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from runtime.kv.disk.files import block_name
from runtime.kv.index import BlockIndex, IndexEntry
from tests.fakes.kv_blocks import (
    FILE_BYTES,
    LONG,
    ROOT,
    FullDisk,
    chain,
    held,
    make_block,
    names,
    open_tier,
    put_all,
)
from tests.unit.runtime.kv.disk.gates import Gate


def test_the_least_recently_used_chain_goes_first_and_its_end_before_its_start(tmp_path: Path) -> None:
    one, other = chain(3, seed=10), chain(3, seed=20)
    with open_tier(tmp_path, budget=6 * FILE_BYTES) as tier:
        put_all(tier, one + other)
        tier.touch([block.key for block in one])
        put_all(tier, chain(1, seed=30))
        assert (held(tier, one), held(tier, other)) == ([0, 1, 2], [0, 1])
        put_all(tier, chain(2, seed=40))
        assert (held(tier, one), held(tier, other)) == ([0, 1, 2], [])
        put_all(tier, chain(1, seed=50))
        assert held(tier, one) == [0, 1]
        assert tier.statistics().evicted == 4
        tier.check_integrity()


def test_the_order_survives_a_restart(tmp_path: Path) -> None:
    one, other = chain(2, seed=10), chain(2, seed=20)
    with open_tier(tmp_path) as tier:
        put_all(tier, one + other)
        tier.touch([block.key for block in one])
    with open_tier(tmp_path, budget=3 * FILE_BYTES) as tier:
        assert (held(tier, one), held(tier, other)) == ([0, 1], [0])
        put_all(tier, chain(1, seed=30))
        assert (held(tier, one), held(tier, other)) == ([0, 1], [])
    stamps = {path.name[:64]: path.stat().st_mtime_ns for path in (tmp_path / ROOT.hex()).iterdir()}
    assert stamps[one[0].key.hex()] > stamps[one[1].key.hex()]  # parents later, for whoever looks at the files


def test_a_block_is_used_when_its_child_comes_also_for_the_next_start(tmp_path: Path) -> None:
    parent, other = make_block(1), make_block(50)
    child = make_block(2, parent.key)
    with open_tier(tmp_path) as tier:
        put_all(tier, [parent, other, child])
        tier.drop([child.key])
    with open_tier(tmp_path, budget=FILE_BYTES) as tier:
        assert held(tier, [parent, other]) == [0]


def test_a_load_counts_as_a_use(tmp_path: Path) -> None:
    blocks = [make_block(seed) for seed in range(3)]
    with open_tier(tmp_path, budget=3 * FILE_BYTES) as tier:
        put_all(tier, blocks)
        assert tier.load(blocks[0].key) is not None
        put_all(tier, [make_block(3)])
        assert held(tier, blocks) == [0, 2]


def test_a_chain_longer_than_the_budget_keeps_its_start(tmp_path: Path) -> None:
    blocks = chain(6)
    with open_tier(tmp_path, budget=3 * FILE_BYTES + 5) as tier:
        put_all(tier, blocks)
        assert held(tier, blocks) == [0, 1, 2]
        assert (tier.statistics().dropped, tier.statistics().evicted) == (3, 0)


def test_a_budget_below_one_block_keeps_nothing_and_breaks_nothing(tmp_path: Path) -> None:
    with open_tier(tmp_path) as tier:
        put_all(tier, chain(1))
    with open_tier(tmp_path, budget=FILE_BYTES - 1) as tier:
        assert names(tmp_path) == set()
        put_all(tier, chain(1))
        assert (len(tier), tier.statistics().dropped) == (0, 1)


def test_names_that_claim_a_circle_are_no_trap(tmp_path: Path) -> None:
    one, other = make_block(1), make_block(2)
    with open_tier(tmp_path):
        pass
    for key, parent in ((one.key, other.key), (other.key, one.key)):
        (tmp_path / ROOT.hex() / block_name(key, parent)).write_bytes(b"\0" * FILE_BYTES)
    with open_tier(tmp_path, budget=FILE_BYTES) as tier:
        assert tier.load(one.key) is None
        put_all(tier, [make_block(3)])
        assert make_block(3).key in tier


def test_the_index_does_not_keep_what_it_has_forgotten() -> None:
    index = BlockIndex()
    for number in range(1000):
        key = number.to_bytes(32, "big")
        index.add(key, IndexEntry(ROOT, 1, number))
        if number >= 3:
            index.remove((number - 1).to_bytes(32, "big"))
    assert index.queue_length < 100
    index.check_integrity()


def test_a_failing_disk_lets_the_queue_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writing: Gate) -> None:
    monkeypatch.setattr(os, "write", FullDisk())
    blocks = chain(4)
    with open_tier(tmp_path) as tier:
        for block in blocks:
            tier.put_nowait(block)
        assert writing.arrived.wait(LONG)
        writing.open.set()
        assert tier.flush(LONG) == 0
        assert held(tier, blocks) == []
        assert tier.statistics().dropped == 4


def test_what_a_failing_disk_let_go_is_told_once_but_for_what_was_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writing: Gate
) -> None:
    monkeypatch.setattr(os, "write", FullDisk())
    blocks, told = chain(4), threading.Semaphore(0)
    with open_tier(tmp_path, has_space=told.release) as tier:
        assert tier.put_nowait(blocks[0])
        assert writing.arrived.wait(LONG)
        for block in blocks[1:]:
            tier.put_nowait(block)
        tier.drop([blocks[0].key])
        tier.drop([blocks[2].key])
        writing.open.set()
        assert told.acquire(timeout=LONG)
        assert tier.take_refused() == [blocks[1].key, blocks[3].key]
        assert tier.take_refused() == []
