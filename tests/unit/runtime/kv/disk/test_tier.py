"""The disk tier: what it keeps, and who may use its folder."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest
import torch

from runtime.kv.blocks import Block
from runtime.kv.disk.folder import KVFolderError
from runtime.kv.disk.tier import open_disk_tier
from tests.fakes.kv_blocks import (
    FILE_BYTES,
    LONG,
    OTHER_ROOT,
    PLENTY,
    ROOT,
    assert_same,
    chain,
    held,
    make_block,
    open_tier,
    put_all,
)
from tests.unit.runtime.kv.disk.gates import Gate


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
    with open_tier(tmp_path, queue_blocks=4, has_space=told.release) as tier:
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
        tier.close()
        writing.open.set()
    assert tier.statistics().dropped == 2
    assert not tier.put_nowait(blocks[2])
    with open_tier(tmp_path) as tier:
        assert held(tier, blocks) == [0]


def test_a_writer_that_hangs_does_not_hold_up_the_end_and_keeps_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writing: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("runtime.kv.disk.writer.MAX_LAST_WRITE_SECONDS", 0.01)
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
