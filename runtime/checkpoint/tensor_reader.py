"""Tensors of safetensors files, read into tensors that are allocated already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.checkpoint.shards import open_shard

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from torch import Tensor

    from runtime.checkpoint.shards import Shard


class TensorReader:
    """Reads tensors one at a time, in as many calls as the caller has room for.

    Args:
        shards: the files.
        names: all tensors that are going to be read.
        progress: called with bytes done and in all, of the files, after each tensor.
    """

    def __init__(
        self, shards: Collection[Shard], names: Collection[str], progress: Callable[[int, int], None] | None = None
    ) -> None:
        self._shards = shards
        self._progress = progress
        self._done = 0
        self._total = sum(entry.num_bytes for shard in shards for name, entry in shard.tensors.items() if name in names)

    def fill(self, places: Mapping[str, Tensor]) -> None:
        """Read the tensors that `places` names; their shapes have been checked.

        A file is open only while tensors of it are read: an open one is mapped, which counts as this process's memory.

        Raises:
            CheckpointError: a file is unreadable.
        """
        for shard in self._shards:
            names = [name for name in shard.tensors if name in places]
            if not names:
                continue
            with open_shard(shard.path) as file:
                for name in names:
                    # Cast on the CPU: not every device casts from every dtype.
                    places[name].copy_(file.get_tensor(name).to(places[name].dtype))
                    self._done += shard.tensors[name].num_bytes
                    if self._progress is not None:
                        self._progress(self._done, self._total)
