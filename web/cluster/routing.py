"""Events by which Dynamo's router knows of KV blocks that come and go."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from runtime.kv.blocks import BLOCK_TOKENS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.kv.blocks import BlockKey

logger = logging.getLogger("cede.web")

NAME_BYTES = 8  # Dynamo's names of blocks are signed 64-bit integers


class Publisher(Protocol):
    """Publisher of events: Dynamo's `KvEventPublisher`, which queues an event and returns at once."""

    def publish_stored(
        self, token_ids: list[int], num_block_tokens: list[int], block_hashes: list[int], parent_hash: int | None = None
    ) -> None:
        """Say that blocks can be had here."""

    def publish_removed(self, block_hashes: list[int]) -> None:
        """Say that blocks cannot be had here any more."""


class BlockEvents:
    """Publishes what the engine holds; the listener of `told_of_blocks`.

    The router finds blocks by their tokens, and the worker looks for every block itself: two blocks of one name would
    cost a detour, never a wrong answer.

    Args:
        root: the key that stands for the model.
        publisher: of this worker.
    """

    def __init__(self, root: BlockKey, publisher: Publisher) -> None:
        self._root = root
        self._publisher = publisher
        self._is_deaf = False

    def stored(self, parent: BlockKey, keys: Sequence[BlockKey], token_ids: Sequence[int]) -> None:
        """Blocks can be reached from now on."""
        if self._is_deaf:
            return
        before = None if parent == self._root else name_of(parent)
        try:
            self._publisher.publish_stored(
                list(token_ids), [BLOCK_TOKENS] * len(keys), [name_of(key) for key in keys], before
            )
        except Exception:
            self._stop()

    def removed(self, keys: Sequence[BlockKey]) -> None:
        """Blocks cannot be reached any more."""
        if self._is_deaf:
            return
        try:
            self._publisher.publish_removed([name_of(key) for key in keys])
        except Exception:
            self._stop()

    def _stop(self) -> None:
        """Publish nothing more: what is missing once would be wrong ever after.  Requests are served all the same."""
        self._is_deaf = True
        logger.exception("KV events cannot be published any more; requests may go where their KV is not")


def name_of(key: BlockKey) -> int:
    """Dynamo's name of a block."""
    return int.from_bytes(key[:NAME_BYTES], "little", signed=True)
