"""One block as one file: round trips, and every way in which a file can be wrong."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import random
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import safetensors
import torch
from hypothesis import given
from hypothesis import strategies as st

from runtime.kv.disk.files import (
    HEADER_BYTES,
    BadBlockFile,
    BlockHeader,
    BlockLayout,
    checksum,
    decode_header,
    encode_header,
    parse_name,
    read_block,
    read_header,
    write_temporary,
)
from tests.fakes.kv_blocks import OTHER_ROOT, ROOT, make_block
from tests.unit.runtime.kv.disk.one_block import BLOCK, DATA, HEADER, LAYOUT, NAME


@pytest.fixture
def path(tmp_path: Path, folder: int) -> Path:
    """A good file."""
    os.rename(write_temporary(folder, HEADER, DATA, stamp=123), NAME, src_dir_fd=folder, dst_dir_fd=folder)
    return tmp_path / NAME


def read(folder: int) -> tuple[BlockHeader, np.ndarray]:
    return read_block(folder, NAME, root=ROOT, layouts=[LAYOUT])


def reason(folder: int) -> str:
    with pytest.raises(BadBlockFile) as raised:
        read(folder)
    return raised.value.reason


def rewrite(path: Path, **changes: object) -> None:
    """Give a file another header."""
    header = dataclasses.replace(HEADER, **changes)  # type: ignore[arg-type]
    path.write_bytes(encode_header(header) + path.read_bytes()[HEADER_BYTES:])


def test_a_file_comes_back_whole(folder: int, path: Path) -> None:
    header, data = read(folder)
    assert header == HEADER == read_header(folder, NAME)
    assert data.tobytes() == DATA.tobytes()
    status = path.stat()
    assert (status.st_size, status.st_mtime_ns) == (LAYOUT.file_bytes, 123)
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert os.listdir(folder) == [NAME]


@pytest.mark.usefixtures("folder")
def test_the_safetensors_library_reads_it(path: Path) -> None:
    with safetensors.safe_open(path, framework="pt") as file:
        assert torch.equal(file.get_tensor("kv"), BLOCK.data)
        metadata = file.metadata()
    assert metadata["key"] == BLOCK.key.hex()
    assert metadata["tokens"] == ",".join(map(str, BLOCK.token_ids))


def test_the_largest_header_fits() -> None:
    header = dataclasses.replace(
        HEADER, token_ids=(2**32 - 1,) * 64, layout=BlockLayout("BF16", (999, 2, 999, 64, 999))
    )
    encoded = encode_header(header)
    assert len(encoded) == HEADER_BYTES
    assert decode_header(encoded) == header


def test_names_show_key_and_parent() -> None:
    assert parse_name(NAME) == (BLOCK.key, BLOCK.parent)
    for name in ("", "lock", NAME.upper(), NAME[1:], NAME + "x", "x" + NAME, NAME.replace("-", "_"), f"{'0' * 64}.tmp"):
        assert parse_name(name) is None


@given(st.text())
def test_any_other_name_is_not_a_block(name: str) -> None:
    assert parse_name(name) is None


# --- what is wrong with a file ------------------------------------------------------------------------------------


def test_a_missing_file(folder: int) -> None:
    assert reason(folder) == "missing"


@pytest.mark.parametrize("size", [0, 7, 8, 500, HEADER_BYTES - 1])
def test_a_file_cut_short_in_its_header(folder: int, path: Path, size: int) -> None:
    os.truncate(path, size)
    assert reason(folder) == "header"


@pytest.mark.parametrize("size", [HEADER_BYTES, HEADER_BYTES + 1, LAYOUT.file_bytes - 1, LAYOUT.file_bytes + 1])
def test_a_file_of_another_size(folder: int, path: Path, size: int) -> None:
    os.truncate(path, size)
    assert reason(folder) == "size"


def test_a_file_that_shrinks_while_it_is_read(folder: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readv = os.readv

    def shrinking(file: int, views: list[memoryview]) -> int:
        os.truncate(path, HEADER_BYTES + 10)
        return readv(file, views)

    monkeypatch.setattr(os, "readv", shrinking)
    assert reason(folder) == "size"


def test_every_flipped_bit_of_the_header_is_seen_or_changes_nothing(folder: int, path: Path) -> None:
    encoded = encode_header(HEADER)
    harmless = 0
    with path.open("r+b", buffering=0) as file:
        for bit in range(8 * (len(encoded.rstrip()) + 16)):
            place = bit // 8
            os.pwrite(file.fileno(), bytes([encoded[place] ^ 1 << bit % 8]), place)
            try:
                header, data = read_block(folder, NAME, root=ROOT, layouts=[LAYOUT])
            except BadBlockFile:
                continue
            finally:
                os.pwrite(file.fileno(), encoded[place : place + 1], place)
            harmless += 1
            assert (header, bytes(data)) == (HEADER, bytes(DATA))
    assert harmless < 1000  # the names of what is not read


def test_every_flipped_bit_of_the_data_is_seen() -> None:
    data = DATA.copy()
    for bit in range(8 * data.size):
        data[bit // 8] ^= 1 << bit % 8
        if bit % 7 == 0:
            assert checksum(data) != HEADER.checksum
        data[bit // 8] ^= 1 << bit % 8
    assert checksum(data) == HEADER.checksum


def test_a_flipped_bit_in_the_file(folder: int, path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-100] ^= 4
    path.write_bytes(content)
    assert reason(folder) == "checksum"


@pytest.mark.parametrize("size", [8 * 4096, 8 * 4096 + 24, 100])
def test_the_checksum_sees_moved_zeroed_and_random_parts(size: int) -> None:
    generator = random.Random(size)
    data = np.frombuffer(generator.randbytes(size), np.uint8)
    expected = checksum(data)
    assert checksum(data.copy()) == expected
    for _ in range(300):
        changed = data.copy()
        length = generator.choice([1, 8, 64, 512, 4096])
        length = min(length, size // 2)
        to, origin = (generator.randrange(0, (size - length) // length + 1) * length for _ in range(2))
        match generator.randrange(4):
            case 0:
                changed[to : to + length] = 0
            case 1:
                changed[to : to + length] = data[origin : origin + length]
            case 2:
                changed[to : to + length], changed[origin : origin + length] = (
                    data[origin : origin + length],
                    data[to : to + length],
                )
            case 3:
                changed[to : to + length] = np.frombuffer(generator.randbytes(length), np.uint8)
        assert (checksum(changed) == expected) == np.array_equal(changed, data)
    assert checksum(data[:-8]) != expected


def test_zeros_of_different_lengths_differ() -> None:
    assert len({checksum(np.zeros(size, np.uint8)) for size in (0, 8, 4096, 4104, 8192)}) == 5


def test_another_model(folder: int, path: Path) -> None:
    rewrite(path, root=OTHER_ROOT)
    assert reason(folder) == "root"


def test_another_shape_or_dtype(folder: int, path: Path) -> None:
    rewrite(path, layout=BlockLayout("F32", (4, 2, 1, 64, 4)))
    assert reason(folder) == "layout"
    rewrite(path, layout=BlockLayout("BF16", (2, 2, 1, 64, 16)))
    assert reason(folder) == "layout"


def test_other_tokens_another_parent_or_another_blocks_file(folder: int, path: Path) -> None:
    other = make_block(2)
    for changes in (
        {"token_ids": other.token_ids},
        {"token_ids": BLOCK.token_ids[:-1]},
        {"token_ids": (-1, *BLOCK.token_ids[1:])},
        {"parent": OTHER_ROOT},
        {"key": other.key, "token_ids": other.token_ids},
    ):
        rewrite(path, **changes)
        assert reason(folder) == "key"


def test_a_future_version_is_told_apart_whatever_else_is_new(folder: int, path: Path) -> None:
    text = json.dumps({"__metadata__": {"version": "2"}, "kv": {}, "more": 1}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"new")
    assert reason(folder) == "version"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * LAYOUT.file_bytes,
        b"\xff" * LAYOUT.file_bytes,
        b"PK\x03\x04 and so on" * 100,
        (4088).to_bytes(8, "little") + b"[" * 4088,
        (4088).to_bytes(8, "little") + b"{}".ljust(4088),
        (4088).to_bytes(8, "little") + b'{"__metadata__":[],"kv":1}'.ljust(4088),
        (4088).to_bytes(8, "little") + b'{"__metadata__":{"version":"1"},"kv":{}}'.ljust(4088),
        (4088).to_bytes(8, "little") + b"\xf0\x28\x8c\x28".ljust(4088),
        (2**64 - 1).to_bytes(8, "little") + b"{}".ljust(4088),
    ],
)
def test_a_foreign_file(folder: int, path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert reason(folder) == "header"


@given(st.binary(max_size=HEADER_BYTES))
def test_any_bytes_are_refused_in_order(content: bytes) -> None:
    with pytest.raises(BadBlockFile):
        decode_header(content)


@pytest.mark.parametrize("value", [None, True, 5, 1.5, float("inf"), float("nan"), "x", [], {}, [float("inf")], [[1]]])
def test_a_header_whose_values_are_of_another_kind(value: object) -> None:
    parts = json.loads(encode_header(HEADER)[8:])
    understood = 0
    for part in (parts, parts["__metadata__"], parts["kv"]):
        for name, good in list(part.items()):
            part[name] = value
            text = json.dumps(parts).encode()
            with suppress(BadBlockFile):
                decode_header(len(text.ljust(4088)).to_bytes(8, "little") + text.ljust(4088))
                understood += 1
            part[name] = good
    assert understood <= 3  # the checksum is compared later, whatever it is; 1.5 and True may pass for a version


def test_a_pickle_is_not_even_looked_into(folder: int, path: Path) -> None:
    torch.save(BLOCK.data, path)
    assert reason(folder) == "header"


def _folder_in_its_place(path: Path) -> None:
    path.mkdir()


def _link_to_a_good_file(path: Path) -> None:
    good = path.with_name("elsewhere")
    good.write_bytes(encode_header(HEADER) + DATA.tobytes())
    path.symlink_to(good)


@pytest.mark.parametrize("put", [_folder_in_its_place, _link_to_a_good_file, os.mkfifo])
def test_what_is_not_a_regular_file_is_not_followed_nor_waited_for(
    folder: int, path: Path, put: Callable[[Path], None]
) -> None:
    path.unlink()
    put(path)
    assert reason(folder) == "irregular"


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("call", ["open", "readv", "read"])
def test_an_unreadable_file(folder: int, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, call, fail)
    assert reason(folder) == "unreadable"


def test_only_a_block_file_that_can_never_be_used_is_worthless() -> None:
    kept = {"missing", "unreadable", "irregular", "version"}
    for word in ("header", "size", "root", "layout", "key", "checksum", *kept):
        assert BadBlockFile(word, "").worthless == (word not in kept)
