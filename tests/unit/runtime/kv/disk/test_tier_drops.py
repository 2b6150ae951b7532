"""The disk tier: what is dropped is gone at once, also where its file is still on its way or the disk hangs."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from runtime.kv.blocks import Block
from runtime.kv.disk.files import block_name, read_block
from runtime.kv.disk.folder import remove
from tests.fakes.kv_blocks import (
    LONG,
    ROOT,
    assert_same,
    chain,
    held,
    make_block,
    names,
    open_tier,
    put_all,
)
from tests.unit.runtime.kv.disk.gates import Gate


@pytest.fixture
def renaming(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """After a block was found to be still wanted, before its file has its name."""
    gate = Gate(os.rename)
    monkeypatch.setattr(os, "rename", gate)
    return gate


# --- dropping -----------------------------------------------------------------------------------------------------


def test_a_dropped_block_is_gone_at_once_and_after_a_restart(tmp_path: Path) -> None:
    blocks = chain(3)
    with open_tier(tmp_path) as tier:
        put_all(tier, blocks)
        tier.drop([blocks[1].key])
        assert held(tier, blocks) == [0, 2]
        assert tier.flush(LONG) == 0
        assert len(names(tmp_path)) == 2
        assert tier.load(blocks[1].key) is None
        assert tier.statistics().struck == 1
        tier.check_integrity()
    with open_tier(tmp_path) as tier:
        assert held(tier, blocks) == [0, 2]
        put_all(tier, [blocks[1]])  # computed again, cleanly
        assert_same(tier.load(blocks[1].key), blocks[1])


def test_a_block_dropped_in_the_queue_is_never_written(tmp_path: Path, writing: Gate) -> None:
    first, second = chain(2)
    with open_tier(tmp_path) as tier:
        tier.put_nowait(first)
        assert writing.arrived.wait(LONG)
        tier.put_nowait(second)
        tier.drop([second.key])
        assert second.key not in tier
        writing.open.set()
        assert tier.flush(LONG) == 0
        assert len(names(tmp_path)) == 1
        assert (tier.statistics().written, tier.statistics().struck) == (1, 1)


def test_a_block_dropped_while_it_is_written_does_not_appear(tmp_path: Path, writing: Gate) -> None:
    (block,) = chain(1)
    with open_tier(tmp_path) as tier:
        tier.put_nowait(block)
        assert writing.arrived.wait(LONG)
        tier.drop([block.key])
        assert block.key not in tier
        assert tier.load(block.key) is None
        writing.open.set()
        assert tier.flush(LONG) == 0
        assert names(tmp_path) == set()
        assert tier.statistics().written == 0
        tier.check_integrity()


def test_a_block_put_again_after_that_drop_is_written(tmp_path: Path, writing: Gate) -> None:
    (block,) = chain(1)
    again = Block(block.key, block.parent, block.token_ids, block.data + 1)
    with open_tier(tmp_path) as tier:
        tier.put_nowait(block)
        assert writing.arrived.wait(LONG)
        tier.drop([block.key])
        assert tier.put_nowait(again)
        assert tier.load(block.key) is again
        writing.open.set()
        assert tier.flush(LONG) == 0
        assert_same(tier.load(block.key), again)


def test_the_same_block_put_again_after_that_drop_is_written_once(tmp_path: Path, writing: Gate) -> None:
    """The drop of another one does not make the write wanted again that the first drop has ended."""
    block, other = chain(2)
    with open_tier(tmp_path) as tier:
        tier.put_nowait(block)
        assert writing.arrived.wait(LONG)
        tier.drop([block.key])
        assert tier.put_nowait(block)
        tier.drop([other.key])
        writing.open.set()
        assert tier.flush(LONG) == 0
        assert tier.statistics().written == 1
        tier.check_integrity()


def test_a_block_dropped_while_its_file_gets_its_name_is_gone_at_once_and_then_removed(
    tmp_path: Path, renaming: Gate
) -> None:
    (block,) = chain(1)
    with open_tier(tmp_path) as tier:
        tier.put_nowait(block)
        assert renaming.arrived.wait(LONG)
        tier.drop([block.key])
        assert block.key not in tier
        renaming.open.set()
        assert tier.flush(LONG) == 0
        assert block.key not in tier
        assert names(tmp_path) == set()
        assert (tier.statistics().written, tier.statistics().struck) == (0, 1)
        tier.check_integrity()


# --- dropping while the disk hangs --------------------------------------------------------------------------------


@pytest.fixture
def unlinking(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Before a dropped block's file is unlinked."""
    gate = Gate(remove)
    monkeypatch.setattr("runtime.kv.disk.blocks.remove", gate)
    return gate


def test_a_drop_waits_for_no_disk_and_is_believed_at_once(tmp_path: Path, unlinking: Gate) -> None:
    """This thread stands for the event loop: it would stand still, were it to wait for the unlinking."""
    blocks = chain(3)
    with open_tier(tmp_path) as tier:
        put_all(tier, blocks)
        tier.drop([block.key for block in blocks[1:]])
        assert unlinking.arrived.wait(LONG)
        assert held(tier, blocks) == [0]
        assert tier.load(blocks[1].key) is None
        assert tier.parents() == {blocks[0].key: ROOT}
        assert tier.statistics().struck == 2
        assert tier.put_nowait(make_block(50))
        tier.drop([blocks[0].key])
        tier.touch([blocks[0].key])
        assert held(tier, blocks) == []
        assert len(names(tmp_path)) == 3, "they are unlinked already: this shows nothing"
        unlinking.open.set()
        assert tier.flush(LONG) == 0
        assert names(tmp_path) == {block_name(make_block(50).key, ROOT)}
        tier.check_integrity()
    with open_tier(tmp_path) as tier:
        assert held(tier, blocks) == []


def test_a_block_computed_anew_while_the_dropped_one_is_still_there_takes_its_place(
    tmp_path: Path, unlinking: Gate
) -> None:
    (block,) = chain(1)
    again = Block(block.key, block.parent, block.token_ids, block.data + 1)
    with open_tier(tmp_path) as tier:
        put_all(tier, [block])
        tier.drop([block.key])
        assert unlinking.arrived.wait(LONG)
        assert tier.put_nowait(again)
        assert tier.load(block.key) is again
        unlinking.open.set()
        assert tier.flush(LONG) == 0
        assert_same(tier.load(block.key), again)
        tier.check_integrity()
    with open_tier(tmp_path) as tier:
        assert_same(tier.load(block.key), again)


def test_what_was_dropped_is_unlinked_before_anything_else_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writing: Gate
) -> None:
    blocks, others, seen = chain(2), chain(3, seed=50), list[set[str]]()
    writing.open.set()

    def write(*args: object, **kwargs: object) -> object:
        seen.append(names(tmp_path))
        return writing(*args, **kwargs)

    with open_tier(tmp_path) as tier:
        put_all(tier, blocks)
        monkeypatch.setattr("runtime.kv.disk.blocks.write_temporary", write)
        writing.open.clear()
        writing.arrived.clear()
        for block in others:
            tier.put_nowait(block)
        assert writing.arrived.wait(LONG)
        tier.drop([block.key for block in blocks])
        writing.open.set()
        assert tier.flush(LONG) == 0
    assert [len(listing) for listing in seen] == [2, 1, 2]


def test_what_was_dropped_is_unlinked_at_the_end(tmp_path: Path, writing: Gate) -> None:
    blocks = chain(2)
    with open_tier(tmp_path) as tier:
        writing.open.set()
        put_all(tier, blocks)
        writing.open.clear()
        writing.arrived.clear()
        tier.put_nowait(make_block(50))
        assert writing.arrived.wait(LONG)
        tier.drop([block.key for block in blocks])
        tier.close()
        writing.open.set()
    assert names(tmp_path) == {block_name(make_block(50).key, ROOT)}


def test_a_block_dropped_while_it_is_read_is_a_miss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = chain(1)
    with open_tier(tmp_path) as tier:
        put_all(tier, [block])

        def read_then_drop(*args: object, **kwargs: object) -> object:
            contents = read_block(*args, **kwargs)  # type: ignore[arg-type]
            tier.drop([block.key])
            return contents

        monkeypatch.setattr("runtime.kv.disk.blocks.read_block", read_then_drop)
        assert tier.load(block.key) is None
        assert tier.statistics().loaded == 0


def test_a_drop_that_the_disk_refuses_raises_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (block,) = chain(1)
    with open_tier(tmp_path) as tier:
        put_all(tier, [block])

        def refuse(*_: object, **__: object) -> None:
            raise OSError(errno.EROFS, "Read-only file system")

        with monkeypatch.context() as patch:
            patch.setattr(os, "unlink", refuse)
            tier.drop([block.key])
            assert tier.flush(LONG) == 0
            tier.touch([])  # and the writer tries again
            assert tier.flush(LONG) == 0
        assert block.key not in tier
        assert caplog.text.count("cannot be removed: Read-only file system") == 1
    assert names(tmp_path) == set(), "it is tried once more at the end"
