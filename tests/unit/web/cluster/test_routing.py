"""Events of Dynamo's, from blocks, and what a publisher that fails costs."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.kv.blocks import BLOCK_TOKENS, block_keys
from web.cluster.routing import BlockEvents, name_of

ROOT = b"root" * 8
TOKENS = list(range(3 * BLOCK_TOKENS))
KEYS = block_keys(ROOT, TOKENS)


class FakePublisher:
    """Keeps what is published; fails while it is `broken`."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.broken = False

    def publish_stored(
        self, token_ids: list[int], num_block_tokens: list[int], block_hashes: list[int], parent_hash: int | None = None
    ) -> None:
        """Keep it."""
        if self.broken:
            raise RuntimeError("closed")
        self.events.append((token_ids, num_block_tokens, block_hashes, parent_hash))

    def publish_removed(self, block_hashes: list[int]) -> None:
        """Keep it."""
        if self.broken:
            raise RuntimeError("closed")
        self.events.append(block_hashes)


def test_a_sequences_first_blocks_have_no_parent_and_others_have() -> None:
    publisher = FakePublisher()
    events = BlockEvents(ROOT, publisher)
    events.stored(ROOT, KEYS[:2], TOKENS[: 2 * BLOCK_TOKENS])
    events.stored(KEYS[1], KEYS[2:], TOKENS[2 * BLOCK_TOKENS :])
    events.removed([KEYS[2], KEYS[1]])
    names = [name_of(key) for key in KEYS]
    assert publisher.events == [
        (TOKENS[: 2 * BLOCK_TOKENS], [BLOCK_TOKENS] * 2, names[:2], None),
        (TOKENS[2 * BLOCK_TOKENS :], [BLOCK_TOKENS], names[2:], names[1]),
        [names[2], names[1]],
    ]
    assert len(set(names)) == 3
    assert all(-(2**63) <= name < 2**63 for name in names)


def test_a_publisher_that_fails_is_given_up_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    publisher = FakePublisher()
    events = BlockEvents(ROOT, publisher)
    publisher.broken = True
    events.stored(ROOT, KEYS, TOKENS)
    publisher.broken = False
    events.removed(KEYS)
    assert publisher.events == []
    assert "cannot be published" in caplog.text
