"""A worker that discovery has forgotten stops, and no other does."""

from __future__ import annotations

import trio
import trio.testing
from trio.testing import MockClock

from web.cluster.liveness import ASK_EVERY, LOOKS, watch_presence

OURS, ANOTHER = 7, 8


class Membership:
    """Membership that ought to be."""

    is_in = True


class Client:
    """Client that says what is."""

    def __init__(self) -> None:
        self.found = [OURS, ANOTHER]

    def instance_ids(self) -> list[int]:
        """Return the ids that are found."""
        return self.found


class Watched:
    """A worker that is watched."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.membership, self.client, self.stopped = Membership(), Client(), trio.Event()
        nursery.start_soon(watch_presence, OURS, self.membership, self.client, self.stopped.set)

    async def is_stopped_after(self, looks: int) -> bool:
        """Return whether it has been told to stop after so many looks."""
        await trio.sleep(looks * ASK_EVERY)
        await trio.testing.wait_all_tasks_blocked()
        return self.stopped.is_set()


async def test_a_worker_that_is_forgotten_stops(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    watched = Watched(nursery)
    assert not await watched.is_stopped_after(100)
    watched.client.found = [ANOTHER]
    assert await watched.is_stopped_after(LOOKS)


async def test_one_that_has_left_by_itself_does_not(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    watched = Watched(nursery)
    watched.membership.is_in, watched.client.found = False, []
    assert not await watched.is_stopped_after(100)
    nursery.cancel_scope.cancel()


async def test_one_that_is_missing_for_a_moment_does_not(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    watched = Watched(nursery)
    for _ in range(5):
        watched.client.found = []
        assert not await watched.is_stopped_after(LOOKS - 1)
        watched.client.found = [OURS]
        assert not await watched.is_stopped_after(1)
    nursery.cancel_scope.cancel()
