"""The blocks of one model that lie on disk: their files, and the index of them in memory.

Two locks, taken in this order.  `_files` is held while a block's *name* comes or goes together with its index entry, so
that the two always agree; it may wait for the disk.  The index has a lock of its own, which is never held over a system
call: whoever must not wait uses nothing else.  So a block is forgotten at once, and its file unlinked by the writer.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import torch

from runtime.kv.blocks import Block, BlockKey
from runtime.kv.disk.files import (
    STATE_KIND,
    BadBlockFile,
    BlockHeader,
    BlockLayout,
    block_name,
    checksum,
    read_block,
    write_temporary,
)
from runtime.kv.disk.folder import remove, remove_temporaries, scan
from runtime.kv.disk.index import DiskIndex, DiskIndexStatistics, Losses
from runtime.kv.index import IndexEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

_KINDS = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}

logger = logging.getLogger("cede.kv")


class DiskBlocks:
    """Files of one folder, by key.  Thread-safe; one thread at a time may `write`.

    To make one learns what lies in the folder, from names and sizes, and evicts down to the budget.

    Attributes:
        budget: bytes of files.
        losses: what is here no more.

    Args:
        folder: a descriptor.
        root: the key that stands for the model.
        shape: of a block's tensor.
        dtype: of it.
        part: the shape of a block's tensor without the rows of layers with rings; None where there are no such layers.
        state_bytes: of a state of recurrent layers; 0 where there are none.

    Raises:
        OSError: the folder cannot be listed, or what is too much cannot be removed.
    """

    def __init__(
        self,
        folder: int,
        root: BlockKey,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        budget: int,
        part: tuple[int, ...] | None = None,
        state_bytes: int = 0,
    ) -> None:
        self.budget = budget
        self._folder, self._root, self._dtype = folder, root, dtype
        self._layout = BlockLayout(_KINDS[dtype], tuple(shape))
        self._part = None if part is None else BlockLayout(_KINDS[dtype], tuple(part))
        self._state = BlockLayout(STATE_KIND, (state_bytes,)) if state_bytes else None
        self._layouts = [layout for layout in (self._layout, self._part, self._state) if layout is not None]
        self._files = threading.Lock()
        self.losses = Losses()
        self._index = DiskIndex(budget, self.losses)
        self._read_folder()
        self._evict(0, None)

    # --- for anybody: none of this waits for the disk ---------------------------------------------------------------

    def held(self, keys: Collection[BlockKey]) -> set[BlockKey]:
        """Return those of these blocks that are here."""
        return self._index.held(keys)

    def whole(self, keys: Collection[BlockKey]) -> set[BlockKey]:
        """Return those of these blocks that are here with the rows of all layers."""
        return {key for key, nbytes in self._index.sizes(keys).items() if nbytes == self._layout.file_bytes}

    def parents(self) -> dict[BlockKey, BlockKey]:
        """Return the parent of each block."""
        return self._index.parents()

    def statistics(self) -> DiskIndexStatistics:
        """Return a snapshot."""
        return self._index.statistics()

    def check_fits(self, block: Block) -> None:
        """Check that a block's tensor is one of this model's.

        Raises:
            ValueError: it is not.
        """
        data, layout = block.data, self._layout_of(block)
        dtype = torch.uint8 if block.is_state else self._dtype
        fits = layout is not None and data.shape == layout.shape and data.dtype == dtype
        if not fits or not data.is_cpu or not data.is_contiguous():
            raise ValueError(f"{tuple(data.shape)}, {data.dtype} on {data.device} is not a block of this model")

    def forget(self, keys: Collection[BlockKey]) -> None:
        """Let blocks be gone at once, also one that is given its name now; `remove_forgotten` removes their files."""
        self._index.forget(keys)

    def touch(self, keys: Sequence[BlockKey]) -> None:
        """Note a use of blocks in the order of their sequence: parents come out later than children."""
        self._index.touch(keys)

    # --- for worker threads -----------------------------------------------------------------------------------------

    def load(self, key: BlockKey) -> Block | None:
        """Return the verified block, or None; a file that cannot be used is forgotten, with one log line."""
        entry = self._index.get(key)
        if entry is None:
            return None
        try:
            name = block_name(key, entry.parent)
            header, data = read_block(self._folder, name, root=self._root, layouts=self._layouts)
        except BadBlockFile as bad:
            self._reject(key, entry, bad)
            return None
        if not self._index.note_loaded(key, entry):
            return None
        tensor = torch.from_numpy(data)
        if header.token_ids:
            tensor = tensor.view(self._dtype).view(header.layout.shape)
        return Block(key, header.parent, header.token_ids, tensor, header.layout != self._part, header.private)

    # --- for the writer's thread ------------------------------------------------------------------------------------

    def write(self, block: Block, wanted: Callable[[], bool]) -> bool:
        """Make a block durable, evicting as needed; False if there is no room for it, or it is not `wanted` any more.

        `wanted` is asked at the last moment; from then on `forget` sees to it that the block is not indexed.

        Raises:
            OSError: the disk refused.
        """
        layout = self._layout_of(block) or self._layout
        if not self._evict(layout.file_bytes, block.parent):
            self._index.note_refused(block.key)
            return False
        data = block.data.view(torch.uint8).numpy().reshape(-1)
        names = (self._root, block.key, block.parent, block.token_ids)
        header = BlockHeader(*names, layout, checksum(data), block.private)
        entry = IndexEntry(block.parent, layout.file_bytes, self._index.stamp())
        temporary = write_temporary(self._folder, header, data, stamp=entry.stamp)
        with self._files:
            self._index.begin_naming(block.key)
            if not wanted():
                remove(self._folder, temporary)
                return False
            name = block_name(block.key, block.parent)
            try:
                os.rename(temporary, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            except OSError:
                remove(self._folder, temporary)
                raise
            if not self._index.end_naming(name, block.key, entry):
                return False
        os.fsync(self._folder)
        return True

    def remove_forgotten(self) -> int:
        """Unlink the files of the blocks that were forgotten, durably; returns how many.

        Raises:
            OSError: the disk refused; what could not be unlinked is tried again the next time.
        """
        with self._files:
            names = self._index.doomed()
            for name in names:
                remove(self._folder, name)
                self._index.note_removed(name)
        if names:
            os.fsync(self._folder)
        return len(names)

    def write_stamps(self) -> None:
        """Let the files show what was used when, for the next start; a failure costs only the order."""
        for key, entry in self._index.take_touched().items():
            with suppress(OSError):
                name = block_name(key, entry.parent)
                os.utime(name, ns=(entry.stamp, entry.stamp), dir_fd=self._folder, follow_symlinks=False)

    def check_integrity(self) -> None:
        """Raise AssertionError unless the index agrees with itself and with the folder."""
        with self._files:
            found, _ = scan(self._folder)
            assert all(file.nbytes in self._file_sizes() for file in found)
            self._index.check_integrity({file.key: file.nbytes for file in found})

    def _file_sizes(self) -> list[int]:
        return [layout.file_bytes for layout in self._layouts]

    def _layout_of(self, block: Block) -> BlockLayout | None:
        if block.is_state:
            return self._state
        return self._layout if block.whole else self._part

    # --- inside -----------------------------------------------------------------------------------------------------

    def _read_folder(self) -> None:
        remove_temporaries(self._folder)
        found, irregular = scan(self._folder)
        for name in irregular:
            self._index.note_rejected("irregular")
            _warn(name, "it is not a regular file")
        for file in sorted(found, key=lambda file: file.stamp):
            if not self._index.find(file.key, IndexEntry(file.parent, file.nbytes, file.stamp)):
                self._index.note_rejected("key")  # with another parent: at least one of the two lies
                _warn(file.name, "another file has the same key")
                remove(self._folder, file.name)
            elif file.nbytes not in self._file_sizes():
                self.load(file.key)  # which says what is wrong with it

    def _evict(self, need: int, parent: BlockKey | None) -> bool:
        """Make room for `need` bytes; False if that takes more than there is, or a block that the newcomer needs."""
        while True:
            with self._files:
                has_space, victim = self._index.make_space(need, parent)
                if victim is None:
                    return has_space
                remove(self._folder, victim)

    def _reject(self, key: BlockKey, entry: IndexEntry, bad: BadBlockFile) -> None:
        """Forget a file that cannot be used, and remove it if nobody else could use it either."""
        with self._files:
            if not self._index.reject(key, entry, bad.reason):
                return
            name = block_name(key, entry.parent)
            _warn(name, bad)
            if bad.worthless:
                with suppress(OSError):
                    remove(self._folder, name)


def _warn(name: str, why: object) -> None:
    logger.warning("KV block %s… is not used: %s", name[:16], why)
