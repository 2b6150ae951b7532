"""Record of the blocks that have left the disk tier: evicted, dropped, not written, or found to be unusable."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from runtime.kv.blocks import BlockKey


class Losses:
    """Names of lost blocks, while somebody wants to know.  Thread-safe; its lock is taken after all others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # all that follows
        self._wake: Callable[[], object] | None = None
        self._lost: list[BlockKey] = []

    def watch(self, wake: Callable[[], object] | None) -> None:
        """Note losses from now on, and call `wake`, which returns at once, when there are some; None for no more."""
        with self._lock:
            self._wake = wake
            self._lost.clear()

    def note(self, keys: Iterable[BlockKey]) -> None:
        """Note that blocks may be gone."""
        with self._lock:
            if self._wake is None:
                return
            first = not self._lost
            self._lost += keys
            wake = self._wake if first and self._lost else None
        if wake is not None:
            wake()

    def take(self) -> list[BlockKey]:
        """Return those that were noted since the last call."""
        with self._lock:
            lost, self._lost = self._lost, []
            return lost
