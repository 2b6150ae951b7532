"""The keys are read again at SIGHUP."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable

import pytest
import trio
import trio.testing
from werkzeug.datastructures import Headers

from web.process.access.api_keys import ApiKey, KeyRefused, KeyRing, plain_key
from web.process.access.key_file import ApiKeyError, reload_on_hangup

OLD, NEW = Headers({"x-api-key": "old"}), Headers({"x-api-key": "new"})


async def hung_up(ring: KeyRing, read: Callable[[], list[ApiKey]]) -> None:
    """Send the signal, and wait until it has been dealt with."""
    done = trio.Event()

    def reading() -> list[ApiKey]:
        try:
            return read()
        finally:
            trio.from_thread.run_sync(done.set)

    async with trio.open_nursery() as nursery:
        await nursery.start(reload_on_hangup, ring, reading)
        os.kill(os.getpid(), signal.SIGHUP)
        await done.wait()
        await trio.testing.wait_all_tasks_blocked(0.01)
        nursery.cancel_scope.cancel()


async def test_a_key_that_was_taken_out_is_refused_from_then_on() -> None:
    ring = KeyRing([plain_key(b"old")])
    await hung_up(ring, lambda: [plain_key(b"new")])
    assert ring.find(NEW) == plain_key(b"new")
    with pytest.raises(KeyRefused):
        ring.find(OLD)


async def test_without_any_key_left_nobody_is_served() -> None:
    ring = KeyRing([plain_key(b"old")])
    await hung_up(ring, list)
    with pytest.raises(KeyRefused):
        ring.find(OLD)


@pytest.mark.parametrize("error", [ApiKeyError("keys, line 3: no"), FileNotFoundError("keys")])
async def test_a_file_that_cannot_be_read_changes_nothing(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    ring = KeyRing([plain_key(b"old")])

    def read() -> list[ApiKey]:
        raise error

    with caplog.at_level(logging.ERROR):
        await hung_up(ring, read)
    assert ring.find(OLD) == plain_key(b"old")
    assert "the keys stay as they were" in caplog.text
