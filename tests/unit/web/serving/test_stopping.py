"""Signals to a server, with an engine and others that are stand-ins."""

from __future__ import annotations

import signal
from typing import cast

import pytest
import trio

from actors.engine import Engine
from web.process.hooks import ServerHooks
from web.serving.stopping import LEAVE_SECONDS, stop_on_signal

GRACE = 7.0


class Draining:
    """An engine whose requests use all of the time that they are given."""

    def __init__(self) -> None:
        self.began = self.ended = -1.0

    def requests(self) -> list[object]:
        """None that matters here."""
        return []

    async def drain(self, grace: float) -> None:
        """Wait for so long."""
        self.began = trio.current_time()
        await trio.sleep(grace)
        self.ended = trio.current_time()


class Deaf(ServerHooks):
    """Nobody answers who is told of the end."""

    async def leave(self) -> None:
        """Wait for ever."""
        await trio.sleep_forever()


@pytest.mark.parametrize("grace", [GRACE, 0.0])
async def test_who_does_not_answer_keeps_no_server_from_ending(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture, grace: float
) -> None:
    del autojump_clock
    engine, stop = Draining(), trio.Event()
    async with trio.open_nursery() as nursery:
        await nursery.start(stop_on_signal, cast("Engine", engine), Deaf(), grace, stop)
        began = trio.current_time()
        signal.raise_signal(signal.SIGTERM)
        with trio.fail_after(3600):
            await stop.wait()
        assert trio.current_time() - began == pytest.approx(max(grace, LEAVE_SECONDS))
        nursery.cancel_scope.cancel()
    assert engine.began == began
    assert "could not be told" in caplog.text
