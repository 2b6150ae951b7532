"""`cede kv`, and the sizes and durations that it reads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from runtime.common.units import format_size, parse_duration, parse_size
from runtime.kv.blocks import owner_root
from tests.fakes.kv_blocks import (
    FILE_BYTES,
    LONG,
    OTHER_ROOT,
    ROOT,
    chain,
    flip,
    held,
    make_block,
    names,
    open_tier,
    put_all,
)
from web.commands.kv import kv
from web.process.access.api_keys import KeyLimits
from web.process.access.key_file import KeyFile

DAY = 86400


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two models: three chains of 3, 2 and 1 blocks, and one of 2."""
    with open_tier(tmp_path) as tier:
        put_all(tier, chain(3) + chain(2, seed=100) + [make_block(200)])
    with open_tier(tmp_path, root=OTHER_ROOT) as tier:
        put_all(tier, chain(2, root=OTHER_ROOT))
    return tmp_path


def run(command: str, folder: Path, *options: str) -> Result:
    return CliRunner().invoke(kv, [command, "--kv-dir", str(folder), *options])


def age(folder: Path, blocks: list[int], days: float) -> None:
    """Set back the times of blocks of the first chain."""
    for index in blocks:
        block = chain(3)[index]
        (path,) = (folder / ROOT.hex()).glob(f"{block.key.hex()}-*")
        stamp = path.stat().st_mtime_ns - int(days * DAY * 1e9)
        os.utime(path, ns=(stamp, stamp))


# --- ls -----------------------------------------------------------------------------------------------------------


def test_ls_shows_each_model_and_its_chains(folder: Path) -> None:
    result = run("ls", folder)
    assert result.exit_code == 0
    expected = (
        f"{ROOT.hex()}  F32 [2, 2, 1, 64, 8]\n  6 blocks, 72 KiB in 3 chains\n  used from 20",
        f"{OTHER_ROOT.hex()}  F32 [2, 2, 1, 64, 8]\n  2 blocks, 24 KiB in 1 chain\n  used from 20",
        "\n8 blocks, 96 KiB in all\n",
    )
    for text in expected:
        assert text in result.output


def test_ls_counts_what_cannot_be_reached(folder: Path) -> None:
    with open_tier(folder) as tier:
        tier.drop([chain(3)[0].key])
        assert tier.flush(LONG) == 0
        assert "5 blocks, 60 KiB in 3 chains, 2 loose" in run("ls", folder).output  # while it is in use, too


def test_ls_knows_the_sequences_of_isolated_keys_by_the_keys_names(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    KeyFile(file).add("alice", limits=KeyLimits())
    with open_tier(folder) as tier:
        put_all(tier, chain(2, root=owner_root(ROOT, "alice")) + chain(1, root=owner_root(ROOT, "bob")))
    assert "9 blocks, 108 KiB in 5 chains, 3 loose" in run("ls", folder).output
    assert "in 5 chains, 1 loose" in run("ls", folder, "--api-key-file", str(file)).output


def test_ls_of_a_folder_without_blocks(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / ROOT.hex()).mkdir()
    assert run("ls", tmp_path).output == "0 blocks, 0 B in all\n"


def test_ls_of_a_damaged_file_still_lists(folder: Path) -> None:
    for path in (folder / OTHER_ROOT.hex()).iterdir():
        path.write_bytes(b"")
    assert "(unknown: its header is not that of a block)" in run("ls", folder).output


def test_a_missing_folder_is_a_usage_error(tmp_path: Path) -> None:
    for command in ("ls", "verify", "prune"):
        assert run(command, tmp_path / "none").exit_code == 2


# --- verify -------------------------------------------------------------------------------------------------------


def test_verify_passes_good_files(folder: Path) -> None:
    result = run("verify", folder)
    assert (result.exit_code, result.output) == (0, "8 good, 0 bad\n")


def test_verify_reports_bad_files_and_leaves_them(folder: Path) -> None:
    first, second = sorted((folder / ROOT.hex()).iterdir())[:2]
    flip(first)
    second.unlink()
    second.symlink_to(first)
    result = run("verify", folder)
    assert result.exit_code == 1
    assert f"{first}: its checksum does not fit its contents\n" in result.output
    assert f"{second}: it is not a regular file\n" in result.output
    assert result.output.endswith("6 good, 2 bad\n")
    assert len(names(folder)) == 6


def test_verify_removes_bad_files_when_told_to(folder: Path) -> None:
    first, second = sorted((folder / ROOT.hex()).iterdir())[:2]
    flip(first)
    second.unlink()
    second.mkdir()
    result = run("verify", folder, "--delete")
    assert result.exit_code == 1
    assert f"{first}: its checksum does not fit its contents; removed\n" in result.output
    assert f"{second}: it is not a regular file; not removed: " in result.output
    assert not first.exists()
    second.rmdir()
    assert run("verify", folder, "--delete").output == "6 good, 0 bad\n"


def test_verify_leaves_what_a_newer_cede_wrote(folder: Path) -> None:
    first = min((folder / ROOT.hex()).iterdir())
    first.write_bytes(first.read_bytes().replace(b'"version":"1"', b'"version":"2"'))
    result = run("verify", folder, "--delete")
    assert (result.exit_code, result.output) == (1, f"{first}: it is of format version 2, this is 1\n7 good, 1 bad\n")
    assert first.exists()


def test_verify_of_one_model(folder: Path) -> None:
    assert run("verify", folder, "--root", OTHER_ROOT.hex()[:6].upper()).output == "2 good, 0 bad\n"
    result = run("verify", folder, "--root", "xyz")
    assert result.exit_code == 1
    assert "no model's key starts with xyz" in result.output


def test_what_removes_is_refused_while_a_server_runs(folder: Path) -> None:
    with open_tier(folder):
        assert run("verify", folder).exit_code == 0
        for result in (run("verify", folder, "--delete"), run("prune", folder, "--all")):
            assert result.exit_code == 1
            assert "another cede (process" in result.output
    assert run("prune", folder, "--all").exit_code == 0


@pytest.mark.parametrize(
    "command", [["ls"], ["verify"], ["verify", "--delete"], ["prune", "--all"]], ids=lambda command: " ".join(command)
)
def test_a_folder_that_is_not_of_kv_blocks_is_refused_and_left_alone(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "photos").mkdir()
    name, *options = command
    result = run(name, tmp_path, *options)
    assert result.exit_code == 1
    assert "is not a folder of KV blocks" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]


def test_a_lock_beside_no_blocks_is_not_written_to(tmp_path: Path) -> None:
    """It may be anybody's."""
    (tmp_path / "lock").write_text("4711\n")
    assert run("prune", tmp_path, "--all").output == "removed 0 blocks, 0 B; left 0 blocks, 0 B\n"
    assert (tmp_path / "lock").read_text() == "4711\n"


# --- prune --------------------------------------------------------------------------------------------------------


def test_prune_wants_to_know_what(folder: Path) -> None:
    result = run("prune", folder)
    assert result.exit_code == 2
    assert "--older-than, --to-size or --all" in result.output


def test_prune_to_a_size_takes_the_ends_of_the_oldest_chains(folder: Path) -> None:
    age(folder, [0, 1, 2], 1)
    result = run("prune", folder, "--to-size", f"{6 * FILE_BYTES + 1}")
    assert result.output == "removed 2 blocks, 24 KiB; left 6 blocks, 72 KiB\n"
    with open_tier(folder) as tier:
        assert held(tier, chain(3)) == [0]
        assert len(tier) == 4


def test_prune_by_age_keeps_the_start_of_what_is_young(folder: Path) -> None:
    age(folder, [0, 1], 10)  # but the third block, which needs them, is young
    assert run("prune", folder, "--older-than", "7d").output.startswith("removed 0 blocks")
    age(folder, [2], 8)
    assert run("prune", folder, "--older-than", "9d").output.startswith("removed 0 blocks")
    assert run("prune", folder, "--older-than", "7d").output.startswith("removed 3 blocks")


def test_prune_one_model_and_all(folder: Path) -> None:
    (folder / ROOT.hex() / f"{'0' * 64}.tmp").write_text("left by a kill")
    result = run("prune", folder, "--all", "--root", ROOT.hex())
    assert result.output == "removed 6 blocks, 72 KiB; left 0 blocks, 0 B\n"
    assert not (folder / ROOT.hex()).exists()
    (folder / OTHER_ROOT.hex() / "notes").write_text("mine")
    assert run("prune", folder, "--all").output == "removed 2 blocks, 24 KiB; left 0 blocks, 0 B\n"
    assert names(folder, OTHER_ROOT) == {"notes"}


def test_a_bad_size_or_duration_is_a_usage_error(folder: Path) -> None:
    for options in (["--to-size", "much"], ["--older-than", "long"]):
        result = run("prune", folder, *options)
        assert result.exit_code == 2
        assert "is not a" in result.output
    for options in (["--to-size", "9" * 400], ["--older-than", "9" * 400], ["--older-than", "1" + "0" * 300 + "w"]):
        result = run("prune", folder, *options)
        assert result.exit_code == 2, result.exception
        assert "is more than" in result.output
        assert len(result.output) < 300


def test_torch_is_not_imported(folder: Path) -> None:
    program = (
        "import sys; from web.commands.kv import kv\n"
        f"for command in ('ls', 'verify', 'prune'): kv([command, '--kv-dir', {str(folder)!r}]"
        " + ['--to-size=1k'] * (command == 'prune'), standalone_mode=False)\n"
        "raise SystemExit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, capture_output=True).returncode == 0
    assert not (folder / ROOT.hex()).exists()


# --- units --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("123", 123),
        ("123B", 123),
        ("2GiB", 2 << 30),
        ("2gib", 2 << 30),
        (" 2 GiB ", 2 << 30),
        ("1.5G", 3 << 29),
        ("2Gi", 2 << 30),
        ("500MB", 500_000_000),
        ("10k", 10240),
        ("1TB", 10**12),
        ("1PiB", 1 << 50),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1", "1.2.3G", "2 bytes", "1e9", "two", "1 GiBB", "٣MB", "1G\n2"])
def test_what_is_not_a_size(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


@pytest.mark.parametrize("text", ["8192PiB", "9223372036854775808", "9" * 400, "9" * 400 + "GB"])
def test_what_no_disk_holds(text: str) -> None:
    with pytest.raises(ValueError, match="is more than"):
        parse_size(text)


@given(st.integers(0, 1 << 60))
def test_a_formatted_size_is_read_back_nearly(size: int) -> None:
    assert parse_size(format_size(size)) == pytest.approx(size, rel=0.06)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("15m", 900), ("1.5 h", 5400), ("7d", 7 * DAY), ("2W", 14 * DAY)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "d", "-1d", "1y", "1d2h"])
def test_what_is_not_a_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)
