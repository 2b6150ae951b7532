"""Clients of a cluster: they ask, read, hang up, and ask again."""

from __future__ import annotations

import math
from collections.abc import Callable

import trio

from tests.sim.cluster.books import Story
from tests.sim.cluster.front_door import Answered, FrontDoor, HungUp, Piece, Request
from tests.sim.cluster.network import Connection, Network, Process, Reset
from tests.sim.cluster.scenario import Visit


class Client:
    """Somebody who asks, once or twice.

    Args:
        name: nobody else's.
        visit: what it asks, and when.
        network: of its link.
        find_door: the front door that is there now; None if there is none.
    """

    def __init__(self, name: str, visit: Visit, network: Network, find_door: Callable[[int], FrontDoor | None]) -> None:
        self.stories: list[Story] = []
        self._process = Process(name, name)
        self._visit = visit
        self._network = network
        self._find_door = find_door

    async def run(self, began: float) -> None:
        """Ask, and once more if it is to; times count from `began`."""
        await trio.sleep_until(began + self._visit.arrives)
        await self._ask(f"{self._process.name}.0", leaves=True)
        if self._visit.asks_again is not None:
            await trio.sleep(self._visit.asks_again)
            await self._ask(f"{self._process.name}.1", leaves=False)

    async def _ask(self, request_id: str, *, leaves: bool) -> None:
        door = self._find_door(self._visit.door)
        if door is None:
            return  # nobody listens at its address
        story = Story(request_id, self._visit, trio.current_time(), door.process.name)
        story.tokens = [[] for _ in range(self._visit.choices)]
        self.stories.append(story)
        coming, receive = trio.open_memory_channel[object](math.inf)
        connection = Connection(
            self._network,
            self._process,
            door.process,
            coming.send_nowait,
            lambda message: door.take(connection, message),
        )
        connection.tell_far(Request(story))
        patience = self._visit.hang_up_at if leaves else None
        with trio.move_on_after(math.inf if patience is None else patience) as scope:
            await _read(story, receive, self._visit.hang_up_after if leaves else None, scope)
        if not story.ends:
            story.hung_up_at = trio.current_time()
            connection.tell_far(HungUp())
        await trio.sleep(3 * self._network.longest_delay)  # what else comes would be a second end
        while True:
            try:
                _note(story, receive.receive_nowait())
            except trio.WouldBlock:
                break
        connection.close()


async def _read(
    story: Story,
    receive: trio.MemoryReceiveChannel[object],
    hang_up_after: int | None,
    scope: trio.CancelScope,
) -> None:
    while not story.ends:
        _note(story, await receive.receive())
        if hang_up_after is not None and sum(map(len, story.tokens)) >= hang_up_after and not story.ends:
            scope.cancel()


def _note(story: Story, message: object) -> None:
    """Note what has come; after a hang-up that is what was on its way."""
    match message:
        case Piece(index, tokens, finish):
            if story.ends:
                story.ends += 1  # a piece behind the end is as wrong as a second one
            story.tokens[index] += tokens
            if finish is not None:
                story.finishes[index] = finish
        case Answered(status, why):
            if story.hung_up_at is None or story.ends:
                story.ends += 1
            if status != 200:
                story.status, story.why = status, why
        case Reset() if not story.ends:
            story.broken = True
            story.ends += story.hung_up_at is None
