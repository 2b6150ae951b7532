"""The blocks of one model that lie on disk, and the index of them in memory.

Two locks, taken in this order.  `_files` is held while a block's *name* comes or goes together with its index entry, so
that the two always agree; it may wait for the disk.  `_lock` guards what is in memory, and is never held over a system
call: whoever must not wait takes no other.  So a block is forgotten at once, and its file unlinked by the writer.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

import torch

from runtime.kv.blocks import Block, BlockKey
from runtime.kv.disk.files import (
    BadBlockFile,
    BlockHeader,
    BlockLayout,
    block_name,
    checksum,
    read_block,
    write_temporary,
)
from runtime.kv.disk.folder import remove, remove_temporaries, scan
from runtime.kv.index import BlockIndex, IndexEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

_KINDS = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}

logger = logging.getLogger("cede.kv")


class DiskBlocks:
    """Files of one folder, by key.  Thread-safe; one thread at a time may `write`.

    To make one learns what lies in the folder, from names and sizes, and evicts down to the budget.

    Attributes:
        budget: bytes of files.
        written, loaded, evicted: blocks, so far.
        rejected: files that could not be used, by reason.

    Args:
        folder: a descriptor.
        root: the key that stands for the model.
        shape: of a block's tensor.
        dtype: of it.

    Raises:
        OSError: the folder cannot be listed, or what is too much cannot be removed.
    """

    def __init__(self, folder: int, root: BlockKey, shape: tuple[int, ...], dtype: torch.dtype, budget: int) -> None:
        self.budget = budget
        self.written = self.loaded = self.evicted = 0
        self.rejected: Counter[str] = Counter()
        self._folder, self._root, self._dtype = folder, root, dtype
        self._layout = BlockLayout(_KINDS[dtype], tuple(shape))
        self._files = threading.Lock()
        self._lock = threading.Lock()
        self._index = BlockIndex()
        self._touched: dict[BlockKey, IndexEntry] = {}  # whose stamps the files do not show yet
        self._last_stamp = 0
        self._refused = b""  # the last block for which there was no room
        self._naming = b""  # the block whose file is given its name now
        self._doomed: set[str] = set()  # files of blocks that were forgotten
        self._read_folder()
        self._evict(0, None)

    def __contains__(self, key: BlockKey) -> bool:
        """Whether the block is here."""
        with self._lock:
            return key in self._index

    def held(self, keys: Collection[BlockKey]) -> set[BlockKey]:
        """Return those of these blocks that are here."""
        with self._lock:
            return {key for key in keys if key in self._index}

    def parents(self) -> dict[BlockKey, BlockKey]:
        """Return the parent of each block."""
        with self._lock:
            return self._index.parents()

    def __len__(self) -> int:
        """Return how many blocks there are."""
        with self._lock:
            return len(self._index)

    @property
    def nbytes(self) -> int:
        """Bytes of all files."""
        with self._lock:
            return self._index.nbytes

    def check_fits(self, block: Block) -> None:
        """Raise ValueError unless the block's tensor is one of this model's."""
        data = block.data
        if data.shape != self._layout.shape or data.dtype != self._dtype or not data.is_cpu or not data.is_contiguous():
            raise ValueError(f"{tuple(data.shape)}, {data.dtype} on {data.device} is not a block of this model")

    def load(self, key: BlockKey) -> Block | None:
        """Return the verified block, or None; a file that cannot be used is forgotten, with one log line."""
        with self._lock:
            entry = self._index.get(key)
        if entry is None:
            return None
        try:
            header, data = read_block(self._folder, block_name(key, entry.parent), root=self._root, layout=self._layout)
        except BadBlockFile as bad:
            self._reject(key, entry, bad)
            return None
        with self._lock:
            if self._index.get(key) is not entry:  # removed while it was being read
                return None
            self._touch(key, entry)
            self.loaded += 1
        tensor = torch.from_numpy(data).view(self._dtype).view(self._layout.shape)
        return Block(key, header.parent, header.token_ids, tensor)

    def write(self, block: Block, wanted: Callable[[], bool]) -> bool:
        """Make a block durable, evicting as needed; False if there is no room for it, or it is not `wanted` any more.

        `wanted` is asked at the last moment; from then on `forget` sees to it that the block is not indexed.

        Raises:
            OSError: the disk refused.
        """
        if not self._evict(self._layout.file_bytes, block.parent):
            self._refused = block.key
            return False
        data = block.data.view(torch.uint8).numpy().reshape(-1)
        header = BlockHeader(self._root, block.key, block.parent, block.token_ids, self._layout, checksum(data))
        with self._lock:
            entry = IndexEntry(block.parent, self._layout.file_bytes, self._stamp())
        temporary = write_temporary(self._folder, header, data, stamp=entry.stamp)
        with self._files:
            with self._lock:
                self._naming = block.key
            if not wanted():
                remove(self._folder, temporary)
                return False
            name = block_name(block.key, block.parent)
            try:
                os.rename(temporary, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            except OSError:
                remove(self._folder, temporary)
                raise
            if not self._named(name, block.key, entry):
                return False
        os.fsync(self._folder)
        return True

    def _named(self, name: str, key: BlockKey, entry: IndexEntry) -> bool:
        """Index a block whose file has just got its name, in place of any before; False if it is forgotten by now."""
        with self._lock:
            if self._naming != key:
                self._doomed.add(name)
                return False
            self._naming = b""
            self._doomed.discard(name)
            self._index.add(key, entry)
            self.written += 1
            if key == self._refused:
                self._refused = b""
            return True

    def forget(self, keys: Collection[BlockKey]) -> int:
        """Let blocks be gone at once, also one that is given its name now; returns how many were here.

        Waits for nothing.  Their files stay until `remove_forgotten`.
        """
        with self._lock:
            if self._naming in keys:
                self._naming = b""
            entries = [(key, entry) for key in keys if (entry := self._index.remove(key)) is not None]
            self._doomed.update(block_name(key, entry.parent) for key, entry in entries)
            return len(entries)

    def remove_forgotten(self) -> int:
        """Unlink the files of the blocks that were forgotten, durably; returns how many.

        For the thread that writes.

        Raises:
            OSError: the disk refused; what could not be unlinked is tried again the next time.
        """
        with self._files:
            with self._lock:
                names = sorted(self._doomed)
            for name in names:
                remove(self._folder, name)
                with self._lock:
                    self._doomed.discard(name)
        if names:
            os.fsync(self._folder)
        return len(names)

    def touch(self, keys: Sequence[BlockKey]) -> None:
        """Note a use of blocks in the order of their sequence: parents come out later than children."""
        with self._lock:
            for key in reversed(keys):
                entry = self._index.get(key)
                if entry is not None:
                    self._touch(key, entry)

    def write_stamps(self) -> None:
        """Let the files show what was used when, for the next start; a failure costs only the order."""
        with self._lock:
            touched, self._touched = self._touched, {}
        for key, entry in touched.items():
            with suppress(OSError):
                name = block_name(key, entry.parent)
                os.utime(name, ns=(entry.stamp, entry.stamp), dir_fd=self._folder, follow_symlinks=False)

    def check_integrity(self) -> None:
        """Raise AssertionError unless the index agrees with itself and with the folder."""
        with self._files, self._lock:
            self._index.check_integrity()
            found, _ = scan(self._folder)
            assert {file.key: file.nbytes for file in found} == dict.fromkeys(self._index, self._layout.file_bytes)
            assert self._index.nbytes <= self.budget

    # --- inside -----------------------------------------------------------------------------------------------------

    def _read_folder(self) -> None:
        remove_temporaries(self._folder)
        found, irregular = scan(self._folder)
        for name in irregular:
            self.rejected["irregular"] += 1
            _warn(name, "it is not a regular file")
        for file in sorted(found, key=lambda file: file.stamp):
            self._last_stamp = max(self._last_stamp, file.stamp)
            if file.key in self._index:  # with another parent: at least one of the two lies
                self.rejected["key"] += 1
                _warn(file.name, "another file has the same key")
                remove(self._folder, file.name)
                continue
            self._index.add(file.key, IndexEntry(file.parent, file.nbytes, file.stamp))
            if file.nbytes != self._layout.file_bytes:
                self.load(file.key)  # which says what is wrong with it

    def _evict(self, need: int, parent: BlockKey | None) -> bool:
        """Make room for `need` bytes; False if that takes more than there is, or a block that the newcomer needs.

        That is its parent; and if the parent was refused just now, its ancestors.
        """
        while True:
            with self._files:
                with self._lock:
                    if parent is not None:
                        self._index.touch(parent, self._stamp())
                    if self._index.nbytes + need <= self.budget:
                        return True
                    victim = self._index.next_to_go() if need <= self.budget else None
                    if victim is None or parent in (victim, self._refused):
                        return False
                    entry = self._index.remove(victim)
                    assert entry is not None
                    self.evicted += 1
                remove(self._folder, block_name(victim, entry.parent))

    def _reject(self, key: BlockKey, entry: IndexEntry, bad: BadBlockFile) -> None:
        """Forget a file that cannot be used, and remove it if nobody else could use it either."""
        with self._files:
            with self._lock:
                if self._index.get(key) is not entry:  # removed while it was being read: no wonder
                    return
                self._index.remove(key)
                self.rejected[bad.reason] += 1
            name = block_name(key, entry.parent)
            _warn(name, bad)
            if bad.worthless:
                with suppress(OSError):
                    remove(self._folder, name)

    def _touch(self, key: BlockKey, entry: IndexEntry) -> None:
        self._index.touch(key, self._stamp())
        self._touched[key] = entry

    def _stamp(self) -> int:
        """Now in ns, but later than any stamp before, whatever the clock does."""
        self._last_stamp = max(time.time_ns(), self._last_stamp + 1)
        return self._last_stamp


def _warn(name: str, why: object) -> None:
    logger.warning("KV block %s… is not used: %s", name[:16], why)
