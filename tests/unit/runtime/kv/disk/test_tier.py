"""The disk tier: what it keeps, what it forgets, and in which order."""

from __future__ import annotations

import errno
import os
import stat
import threading
from typing import TYPE_CHECKING

import pytest
import torch

from runtime.kv.blocks import Block
from runtime.kv.disk.files import block_name, read_block, write_temporary
from runtime.kv.disk.folder import KVFolderError, remove
from runtime.kv.disk.tier import open_disk_tier
from runtime.kv.index import BlockIndex, IndexEntry
from tests.fakes.kv_blocks import (
    FILE_BYTES,
    LONG,
    OTHER_ROOT,
    PLENTY,
    ROOT,
    FullDisk,
    assert_same,
    chain,
    held,
    make_block,
    names,
    open_tier,
    put_all,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Gate:
    """Stops the writer at one call, until it is opened."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self.arrived, self.open = threading.Event(), threading.Event()

    def __call__(self, *args: object, **kwargs: object) -> object:
        self.arrived.set()
        assert self.open.wait(LONG)
        return self._function(*args, **kwargs)


@pytest.fixture
def writing(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Before the contents of a file are written."""
    gate = Gate(write_temporary)
    monkeypatch.setattr("runtime.kv.disk.blocks.write_temporary", gate)
    return gate


@pytest.fixture
def renaming(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """After a block was found to be still wanted, before its file has its name."""
    gate = Gate(os.rename)
    monkeypatch.setattr(os, "rename", gate)
    return gate


# --- keeping ------------------------------------------------------------------------------------------------------


def test_blocks_come_back_in_this_run_and_the_next(tmp_path: Path) -> None:
    blocks = chain(5)
    with open_tier(tmp_path) as tier:
        put_all(tier, blocks)
        for block in blocks:
            assert block.key in tier
            assert_same(tier.load(block.key), block)
        tier.flush(LONG)
        tier.check_integrity()
        assert len(tier) == 5
        statistics = tier.statistics()
        assert (statistics.blocks, statistics.bytes, statistics.budget) == (5, 5 * FILE_BYTES, PLENTY)
        assert (statistics.written, statistics.loaded, statistics.queued, statistics.dropped) == (5, 5, 0, 0)
    with open_tier(tmp_path) as tier:
        assert held(tier, blocks) == [0, 1, 2, 3, 4]
        for block in blocks:
            assert_same(tier.load(block.key), block)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_every_dtype_keeps_its_bits(tmp_path: Path, dtype: torch.dtype) -> None:
    block = make_block(1)
    bits = torch.randint(-(2**31), 2**31, (2, 2, 1, 64, 8), dtype=torch.int64).view(dtype)  # NaNs and all
    block = Block(block.key, block.parent, block.token_ids, bits)
    with open_disk_tier(tmp_path, ROOT, shape=tuple(bits.shape), dtype=dtype, budget=PLENTY) as tier:
        put_all(tier, [block])
        loaded = tier.load(block.key)
        assert loaded is not None
        assert loaded.data.dtype == dtype
        assert torch.equal(loaded.data.view(torch.int64), bits.view(torch.int64))


def test_what_was_never_put_is_a_quiet_miss(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_tier(tmp_path) as tier:
        assert make_block(1).key not in tier
        assert tier.load(make_block(1).key) is None
        tier.drop([make_block(1).key])
        tier.touch([make_block(1).key])
        assert tier.statistics().struck == 0
    assert caplog.records == []


def test_a_tensor_of_another_model_is_refused(tmp_path: Path) -> None:
    block = make_block(1)
    with open_tier(tmp_path) as tier:
        for data in (block.data.half(), block.data[:1], block.data.transpose(0, 1)):
            with pytest.raises(ValueError, match="not a block of this model"):
                tier.put_nowait(Block(block.key, block.parent, block.token_ids, data))


def test_a_block_on_its_way_is_there_and_loads_from_memory(tmp_path: Path, writing: Gate) -> None:
    first, second = chain(2)
    with open_tier(tmp_path) as tier:
        assert tier.put_nowait(first)
        assert writing.arrived.wait(LONG)
        assert tier.put_nowait(second)
        for block in (first, second):
            assert block.key in tier
            assert tier.load(block.key) is block
            assert tier.put_nowait(make_block(0) if block is first else block)  # again: nothing more is queued
        assert len(tier) == 0
        assert tier.statistics().queued == 2
        assert tier.flush(0) == 2
        writing.open.set()
        assert tier.flush(LONG) == 0
        assert tier.statistics().written == 2


def test_a_full_queue_refuses_and_has_dropped_nothing(tmp_path: Path, writing: Gate) -> None:
    blocks = chain(5)
    with open_tier(tmp_path, queue_blocks=2) as tier:
        assert tier.put_nowait(blocks[0])
        assert writing.arrived.wait(LONG)
        assert [tier.put_nowait(block) for block in blocks[1:]] == [True, True, False, False]
        writing.open.set()
        assert tier.flush(LONG) == 0
        assert held(tier, blocks) == [0, 1, 2]
        put_all(tier, blocks[3:])
        assert (tier.statistics().written, tier.statistics().dropped) == (5, 0)


def test_who_was_refused_is_told_once_when_there_is_room(tmp_path: Path, writing: Gate) -> None:
    blocks, told = chain(6), threading.Semaphore(0)
    with open_tier(tmp_path, queue_blocks=4, has_room=told.release) as tier:
        assert tier.put_nowait(blocks[0])
        assert writing.arrived.wait(LONG)
        assert [tier.put_nowait(block) for block in blocks[1:]] == [True, True, True, True, False]
        writing.open.set()
        assert told.acquire(timeout=LONG)
        assert tier.flush(LONG) == 0
        put_all(tier, blocks[5:])
    assert not told.acquire(blocking=False)


def test_the_end_of_the_scope_finishes_the_block_in_hand_and_lets_the_rest_go(tmp_path: Path, writing: Gate) -> None:
    blocks = chain(3)
    with open_tier(tmp_path) as tier:
        for block in blocks:
            tier.put_nowait(block)
        assert writing.arrived.wait(LONG)
        tier._close()
        writing.open.set()
    assert tier.statistics().dropped == 2
    assert not tier.put_nowait(blocks[2])
    with open_tier(tmp_path) as tier:
        assert held(tier, blocks) == [0]


def test_a_writer_that_hangs_does_not_hold_up_the_end_and_keeps_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writing: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("runtime.kv.disk.tier.LAST_WRITE_SECONDS", 0.01)
    (block,) = chain(1)
    with open_tier(tmp_path) as tier:
        tier.put_nowait(block)
        assert writing.arrived.wait(LONG)
        (writer,) = [thread for thread in threading.enumerate() if thread.name == "kv-disk-writer"]
    assert writer.daemon
    assert "the disk does not answer" in caplog.text
    with pytest.raises(KVFolderError, match="is using"), open_tier(tmp_path):
        pass
    writing.open.set()
    writer.join(LONG)
    del tier
    with open_tier(tmp_path) as tier:
        assert_same(tier.load(block.key), block)


def test_files_and_folders_are_for_their_owner_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "a" / "kv"
    with open_tier(folder) as tier:
        put_all(tier, chain(1))
    for path in (folder, folder / ROOT.hex()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    for path in (folder / "lock", *(folder / ROOT.hex()).iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    folder.chmod(0o755)  # the operator's own, left alone
    (folder / ROOT.hex()).chmod(0o755)
    with open_tier(folder):
        pass
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert stat.S_IMODE((folder / ROOT.hex()).stat().st_mode) == 0o700
    assert "was open to other users" in caplog.text


def test_a_root_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ROOT.hex()).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(KVFolderError, match="cannot be used"), open_tier(tmp_path):
        pass


def test_a_folder_that_is_a_file_or_someone_elses_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KVFolderError, match="file: cannot be used"), open_tier(tmp_path / "file"):
        pass
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(KVFolderError, match="belongs to another user"), open_tier(tmp_path):
        pass


def test_a_second_server_is_refused_until_the_first_has_gone(tmp_path: Path) -> None:
    with open_tier(tmp_path) as tier:
        for root in (ROOT, OTHER_ROOT):
            with pytest.raises(KVFolderError, match=rf"another cede \(process {os.getpid()}\) is using"):
                with open_tier(tmp_path, root=root):
                    pass
        put_all(tier, chain(1))
    with open_tier(tmp_path) as tier:
        assert len(tier) == 1


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
        tier._close()
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


# --- least recently used ------------------------------------------------------------------------------------------


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
    assert len(index._leaves) < 100
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
    with open_tier(tmp_path, has_room=told.release) as tier:
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
