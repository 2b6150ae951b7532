"""The disk tier on a disk that refuses or is full, and after `kill -9` at random moments."""

from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import random
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
import torch

from runtime.kv.blocks import BlockKey
from runtime.kv.disk.files import TEMPORARY
from runtime.kv.disk.tier import open_disk_tier
from runtime.kv.disk.write_queue import MAX_RETRY_SECONDS, RETRY_SECONDS
from tests.fakes import kv_writer
from tests.fakes.kv_blocks import (
    DTYPE,
    FILE_BYTES,
    LONG,
    ROOT,
    Clock,
    FullDisk,
    assert_same,
    chain,
    data_of,
    held,
    make_block,
    names,
    open_tier,
    put_all,
    small_file_system,
)

# --- a disk that refuses ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_full_disk_suspends_writing_with_one_warning_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    caplog.set_level(logging.INFO, "cede.kv")
    clock, disk = Clock(), FullDisk(code)
    blocks = chain(10)
    with open_tier(tmp_path, clock=clock) as tier:
        put_all(tier, blocks[:2])
        monkeypatch.setattr(os, "write", disk)
        assert tier.put_nowait(blocks[2])
        assert tier.flush(LONG) == 0
        assert not tier.put_nowait(blocks[3])  # no room: refused at once, the disk is not asked
        clock.now += RETRY_SECONDS - 0.1
        assert not tier.put_nowait(blocks[3])
        assert disk.attempts == 1
        clock.now += 0.1
        assert tier.put_nowait(blocks[3])  # tried again, in vain
        tier.flush(LONG)
        clock.now += RETRY_SECONDS
        assert not tier.put_nowait(blocks[4])  # it waits longer now
        clock.now += RETRY_SECONDS
        disk.full = False
        assert tier.put_nowait(blocks[4])
        tier.flush(LONG)
        assert not tier.statistics().suspended
        put_all(tier, blocks[5:])

        assert held(tier, blocks) == [0, 1, 4, 5, 6, 7, 8, 9]
        statistics = tier.statistics()
        assert (statistics.write_errors, statistics.dropped, disk.attempts) == (2, 2, 2)
        assert_same(tier.load(blocks[0].key), blocks[0])
        assert len(names(tmp_path)) == 8
        assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
        assert os.strerror(code) in caplog.text


def test_a_writer_that_may_not_give_way_writes_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbid(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "setpriority", forbid)
    with open_tier(tmp_path) as tier:
        put_all(tier, chain(2))
        assert tier.statistics().written == 2


def test_the_pause_grows_to_a_limit_and_a_success_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, disk = Clock(), FullDisk()
    monkeypatch.setattr(os, "write", disk)
    with open_tier(tmp_path, clock=clock) as tier:
        for pause in (5, 10, 20, 40, 60, 60):
            assert tier.put_nowait(make_block(1))
            tier.flush(LONG)
            clock.now += pause - 0.5
            assert not tier.put_nowait(make_block(1))
            clock.now += 0.5
        assert pause == MAX_RETRY_SECONDS
        disk.full = False
        put_all(tier, [make_block(1)])
        disk.full = True
        put_all(tier, [make_block(2)])
        clock.now += RETRY_SECONDS
        disk.full = False
        put_all(tier, [make_block(3)])
        assert len(tier) == 2


def test_a_drop_makes_room_and_ends_the_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullDisk()
    first, second = chain(2)
    with open_tier(tmp_path) as tier:
        put_all(tier, [first])
        monkeypatch.setattr(os, "write", disk)
        put_all(tier, [second])
        disk.full = False
        assert not tier.put_nowait(second)
        tier.drop([first.key])
        assert tier.flush(LONG) == 0
        put_all(tier, [second])
        assert second.key in tier


def test_an_eviction_that_fails_is_a_write_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_tier(tmp_path, budget=2 * FILE_BYTES) as tier:
        put_all(tier, [make_block(1), make_block(2)])

        def refuse(*_: object, **__: object) -> None:
            raise OSError(errno.EIO, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr("runtime.kv.disk.blocks.remove", refuse)
            put_all(tier, [make_block(3)])
        assert tier.statistics().write_errors == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 1 MiB."""
    with small_file_system(tmp_path / "small", "1m") as folder:
        yield folder


def test_a_disk_that_is_really_full(small_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"\0" * 700_000)
    clock = Clock()
    blocks = chain(100)
    with open_tier(small_disk, clock=clock) as tier:
        for block in blocks:
            tier.put_nowait(block)
            tier.flush(LONG)
        statistics = tier.statistics()
        assert 5 < statistics.blocks < 40
        assert (statistics.suspended, statistics.write_errors) == (True, 1)
        assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1
        assert len(names(small_disk)) == statistics.blocks
        for index in held(tier, blocks):
            assert_same(tier.load(blocks[index].key), blocks[index])

        ballast.unlink()
        clock.now += RETRY_SECONDS
        put_all(tier, blocks[statistics.blocks : statistics.blocks + 5])
        assert not tier.statistics().suspended
        assert len(tier) == statistics.blocks + 5


# --- kill -9 ------------------------------------------------------------------------------------------------------


def test_kill_9_at_random_moments_leaves_whole_files_and_no_lock(tmp_path: Path) -> None:
    generator = random.Random(9)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pytest", "tests.fakes.kv_writer"])  # so that a child is but a fork
    dropped: set[BlockKey] = set()
    temporaries = verified = 0
    for round_ in count():
        if round_ >= 50 and temporaries and verified and dropped:  # in more rounds on a machine that is busy
            return
        reports, theirs = context.Pipe(duplex=False)
        writer = context.Process(target=kv_writer.write_until_killed, args=(tmp_path, round_ * 10_000, theirs))
        writer.start()
        theirs.close()
        reports.recv_bytes()  # it has opened the folder
        writer.join(generator.uniform(0, 0.06))
        assert writer.exitcode is None
        writer.kill()
        writer.join()
        with reports, suppress(EOFError):
            while True:
                dropped.add(reports.recv_bytes())
        writer.close()

        temporaries += sum(name.endswith(TEMPORARY) for name in names(tmp_path))
        with open_disk_tier(tmp_path, ROOT, shape=kv_writer.SHAPE, dtype=DTYPE, budget=kv_writer.BUDGET) as tier:
            left = names(tmp_path)
            assert not [name for name in left if name.endswith(TEMPORARY)]
            assert len(left) == len(tier)
            for name in left:
                key = bytes.fromhex(name[:64])
                assert key not in dropped
                block = tier.load(key)
                assert block is not None
                assert torch.equal(block.data, data_of(key, kv_writer.SHAPE))
                verified += 1
            tier.flush(LONG)
            tier.check_integrity()
            assert tier.statistics().rejected == {}
