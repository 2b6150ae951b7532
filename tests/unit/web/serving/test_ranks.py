"""The other ranks' processes: they end with their scope, and when one of them ends."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
import trio

from tests.live.server import PATIENCE, wait_for
from web.serving import ranks as processes
from web.serving.ranks import open_ranks

TALKS = """#!/bin/sh
echo first >&2
head -c 10000 /dev/zero | tr '\\0' . >&2
echo >&2
exec sleep %g
"""


async def test_one_rank_has_no_other() -> None:
    async with open_ranks(1) as ranks:
        assert ranks is None


async def test_ranks_end_with_their_scope() -> None:
    async with open_ranks(3) as ranks:
        assert ranks is not None
        assert ranks.others.share.of == 3
        assert len(ranks.pids) == 2
    assert ranks.pids == []
    assert ranks.lost is None


async def test_a_rank_that_ends_ends_the_others() -> None:
    async with open_ranks(3) as ranks:
        assert ranks is not None
        os.kill(ranks.pids[0], signal.SIGKILL)
        await ranks.wait_lost()
        assert ranks.lost == "rank 1 of 3 has ended with status -9"
    assert ranks.pids == []


async def test_what_ranks_write_is_in_the_log_a_line_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    program = tmp_path / "rank"
    program.write_text(TALKS % PATIENCE)
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(processes, "END_SECONDS", 0.01)  # it does not end by itself
    async with open_ranks(2) as ranks:
        assert ranks is not None
        await trio.to_thread.run_sync(wait_for, lambda: sum(map(len, caplog.messages)) > 10000, "all of it")
    assert caplog.messages[0] == "rank 1: first"
    assert set("".join(message.removeprefix("rank 1: ") for message in caplog.messages[1:])) == {"."}
