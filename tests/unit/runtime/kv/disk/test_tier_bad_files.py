"""The disk tier and files that cannot be used: each is a miss with one line in the log, and serving goes on."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from runtime.kv.blocks import Block
from runtime.kv.disk.files import HEADER_BYTES, block_name, encode_header, read_header
from runtime.kv.disk.write_queue import RETRY_SECONDS
from tests.fakes.kv_blocks import (
    FILE_BYTES,
    LONG,
    OTHER_ROOT,
    ROOT,
    Clock,
    assert_same,
    chain,
    flip,
    make_block,
    names,
    open_tier,
    put_all,
)


def _truncate(path: Path) -> None:
    os.truncate(path, FILE_BYTES - 1)


def _empty(path: Path) -> None:
    os.truncate(path, 0)


def _foreign(path: Path) -> None:
    path.write_bytes(b"something else".ljust(FILE_BYTES))


def _wrong_model(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    header = read_header(folder, path.name)
    os.close(folder)
    object.__setattr__(header, "root", OTHER_ROOT)
    path.write_bytes(encode_header(header) + path.read_bytes()[HEADER_BYTES:])


def _future_version(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"version":"1"', b'"version":"7"'))


def _future_version_and_size(path: Path) -> None:
    _future_version(path)
    with path.open("ab") as file:
        file.write(b"and more")


def _link(path: Path) -> None:
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _gone(path: Path) -> None:
    path.unlink()


SPOILERS: dict[Callable[[Path], None], tuple[str, bool]] = {  # -> why it is a miss, whether something stays there
    _truncate: ("size", False),
    _empty: ("header", False),
    flip: ("checksum", False),
    _foreign: ("header", False),
    _wrong_model: ("root", False),
    _future_version: ("version", True),
    _future_version_and_size: ("version", True),
    _link: ("irregular", True),
    _directory: ("irregular", True),
    _gone: ("missing", False),
}


@pytest.mark.parametrize(
    ("spoil", "restart"),
    [(spoil, restart) for spoil in SPOILERS for restart in (False, True) if spoil is not _gone or not restart],
)
def test_a_file_that_cannot_be_used_is_one_miss_with_one_line(
    tmp_path: Path, spoil: Callable[[Path], None], restart: bool, caplog: pytest.LogCaptureFixture
) -> None:
    good, block = blocks = chain(2)
    reason, stays = SPOILERS[spoil]
    with ExitStack() as stack:
        tier = stack.enter_context(open_tier(tmp_path))
        put_all(tier, blocks)
        path = tmp_path / ROOT.hex() / block_name(block.key, block.parent)
        if restart:
            stack.close()
            spoil(path)
            tier = stack.enter_context(open_tier(tmp_path))
        else:
            spoil(path)
        for _ in range(3):
            assert tier.load(block.key) is None
        assert block.key not in tier
        assert tier.statistics().rejected == {reason: 1}
        assert len(caplog.records) == 1
        assert f"KV block {block.key.hex()[:16]}… is not used: " in caplog.text
        assert os.path.lexists(path) == stays
        if spoil is not _directory:  # computed again, it takes the bad file's place
            put_all(tier, [block])
            assert_same(tier.load(block.key), block)
        assert_same(tier.load(good.key), good)
    if spoil is _link:
        assert (tmp_path / "elsewhere").stat().st_size == FILE_BYTES


def test_a_folder_in_a_files_place_costs_a_pause_and_no_more(tmp_path: Path) -> None:
    clock = Clock()
    block, other = make_block(1), make_block(2)
    with open_tier(tmp_path, clock=clock) as tier:
        (tmp_path / ROOT.hex() / block_name(block.key, block.parent)).mkdir()
        put_all(tier, [block])
        assert tier.statistics().suspended
        clock.now += RETRY_SECONDS
        put_all(tier, [other])
        assert not tier.statistics().suspended
        assert len(names(tmp_path)) == 2  # no temporary file


def test_an_unreadable_file_is_a_miss_but_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (block,) = chain(1)
    with open_tier(tmp_path) as tier:
        put_all(tier, [block])
        with monkeypatch.context() as patch:  # the tests may run as root, whom no mode keeps out

            def refuse(*_: object, **__: object) -> None:
                raise PermissionError(errno.EACCES, "Permission denied")

            patch.setattr(os, "open", refuse)
            assert tier.load(block.key) is None
        assert len(caplog.records) == 1
        assert "cannot be read: Permission denied" in caplog.text
        assert len(names(tmp_path)) == 1
        assert tier.load(block.key) is None  # forgotten
        put_all(tier, [block])
        assert_same(tier.load(block.key), block)


def test_changed_bytes_under_a_fitting_checksum_pass_for_the_model_to_judge(tmp_path: Path) -> None:
    """Nobody can see this from the file; it is what the first failure and the audit are for."""
    (block,) = chain(1)
    changed = Block(block.key, block.parent, block.token_ids, block.data + 1)
    with open_tier(tmp_path) as tier:
        put_all(tier, [changed])
    with open_tier(tmp_path) as tier:
        assert_same(tier.load(block.key), changed)
        tier.drop([block.key])
        assert tier.flush(LONG) == 0
        assert names(tmp_path) == set()


def test_two_files_of_one_key_leave_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (block,) = chain(1)
    with open_tier(tmp_path) as tier:
        put_all(tier, [block])
    folder = tmp_path / ROOT.hex()
    shutil.copy(folder / block_name(block.key, ROOT), folder / block_name(block.key, OTHER_ROOT))
    with open_tier(tmp_path) as tier:
        assert len(caplog.records) == 1
        assert_same(tier.load(block.key), block)
        tier.flush(LONG)
        tier.check_integrity()


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    with open_tier(tmp_path, root=OTHER_ROOT) as tier:
        put_all(tier, chain(2, root=OTHER_ROOT))
    ours = tmp_path / ROOT.hex()
    ours.mkdir(0o700)
    for path in (ours / "README", ours / "notes.tmp", tmp_path / OTHER_ROOT.hex() / f"{'0' * 64}.tmp"):
        path.write_text("mine")
    (ours / f"{'1' * 64}.tmp").write_text("left by a kill")
    (ours / f"{'2' * 64}.tmp").mkdir()
    with open_tier(tmp_path, budget=FILE_BYTES) as tier:
        assert len(tier) == 0
        assert names(tmp_path) == {"README", "notes.tmp", f"{'2' * 64}.tmp"}
        put_all(tier, chain(1))
    assert len(names(tmp_path, OTHER_ROOT)) == 3
