"""The other ranks' processes: they end with their scope, and when one of them ends."""

from __future__ import annotations

import os
import signal

from web.ranks.processes import open_ranks


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
