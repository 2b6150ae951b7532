"""Small blocks for the tests of the KV tiers: what a block holds is a function of its key."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import torch

from runtime.kv.blocks import BLOCK_TOKENS, Block, BlockKey, block_key, root_key
from runtime.kv.disk.tier import DiskTier, open_disk_tier
from tests.live.server import PATIENCE

SHAPE = (2, 2, 1, BLOCK_TOKENS, 8)
DTYPE = torch.float32
ROOT = root_key(fingerprint="f" * 64, dtype="float32", kv_shape=SHAPE)
OTHER_ROOT = root_key(fingerprint="e" * 64, dtype="float32", kv_shape=SHAPE)
FILE_BYTES = 4096 + 2 * 2 * BLOCK_TOKENS * 8 * 4
PLENTY = 1000 * FILE_BYTES
LONG = PATIENCE  # seconds; nothing waits for so long unless it is broken


def make_block(seed: int, parent: BlockKey = ROOT, shape: tuple[int, ...] = SHAPE) -> Block:
    """The block of tokens made from `seed` after `parent`."""
    tokens = tuple((seed * 1000 + place) % 2**32 for place in range(BLOCK_TOKENS))
    key = block_key(parent, tokens)
    return Block(key, parent, tokens, data_of(key, shape))


def data_of(key: BlockKey, shape: tuple[int, ...] = SHAPE) -> torch.Tensor:
    """The rows that belong to `key`, and to no other."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(int.from_bytes(key[:7], "little")))


def chain(length: int, seed: int = 0, root: BlockKey = ROOT) -> list[Block]:
    """The blocks of one sequence."""
    blocks: list[Block] = []
    for index in range(length):
        blocks.append(make_block(seed + index, blocks[-1].key if blocks else root))
    return blocks


def assert_same(loaded: Block | None, block: Block) -> None:
    """`loaded` is `block`, to the bit."""
    assert loaded is not None
    assert (loaded.key, loaded.parent, loaded.token_ids) == (block.key, block.parent, block.token_ids)
    assert loaded.data.dtype == block.data.dtype
    assert loaded.data.is_contiguous()
    assert torch.equal(loaded.data, block.data)


def names(folder: Path, root: BlockKey = ROOT) -> set[str]:
    """Return what lies in a root's folder."""
    return set(os.listdir(folder / root.hex()))


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time that a test has set."""
        return self.now


def open_tier(
    folder: Path,
    *,
    budget: int = PLENTY,
    queue_blocks: int = 64,
    has_space: Callable[[], object] = lambda: None,
    root: BlockKey = ROOT,
    clock: Clock | None = None,
) -> AbstractContextManager[DiskTier]:
    """The tier for these blocks; its clock stands still unless one is given."""
    return open_disk_tier(
        folder,
        root,
        shape=SHAPE,
        dtype=DTYPE,
        budget=budget,
        queue_blocks=queue_blocks,
        has_space=has_space,
        clock=clock or Clock(),
    )


def put_all(tier: DiskTier, blocks: list[Block]) -> None:
    """Put blocks, each once the one before is on disk."""
    for block in blocks:
        assert tier.put_nowait(block)
        assert tier.flush(LONG) == 0


def held(tier: DiskTier, blocks: list[Block]) -> list[int]:
    """Return which of `blocks` are there."""
    return [index for index, block in enumerate(blocks) if block.key in tier]


def flip(path: Path) -> None:
    """Flip a bit of a file's data."""
    content = bytearray(path.read_bytes())
    content[-9] ^= 16
    path.write_bytes(content)


class FullDisk:
    """Stands in for `os.write`: fails while `full`."""

    def __init__(self, code: int = errno.ENOSPC) -> None:
        self.full = True
        self.attempts = 0
        self._code = code
        self._write = os.write

    def __call__(self, file: int, data: memoryview) -> int:
        """Write, or fail as a full disk does."""
        if self.full and len(data) != 1:  # hypothesis, pytest and others may write a byte to wake someone
            self.attempts += 1
            raise OSError(self._code, os.strerror(self._code))
        return self._write(file, data)


@contextmanager
def small_file_system(folder: Path, size: str) -> Iterator[Path]:
    """A real file system at `folder`, of a size such as `8m`; the test is skipped where none can be mounted."""
    folder.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no tmpfs can be mounted here: {error}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)
