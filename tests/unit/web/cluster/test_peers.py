"""Questions through Dynamo's client, which is a stand-in here."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import trio

from tests.fakes.engine import FakeEngine, as_engine
from web.cluster.control.desk import Desk
from web.cluster.control.questions import Question, asked, worker_name
from web.cluster.control.succession import Succession
from web.cluster.guest import from_asyncio, run_as_guest
from web.cluster.peers import PATIENCE, Peers, answers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Client:
    """Dynamo's: instance 1 answers, 2 is gone, and 3 says nothing."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, int]] = []
        self.answered = trio.Event()

    def instance_ids(self) -> list[int]:
        """All that are known."""
        return [3, 1, 2]

    async def direct(self, request: Any, instance: int, *, annotated: bool) -> AsyncIterator[Any]:  # noqa: ANN401
        """Ask one."""
        assert not annotated
        self.asked.append((request, instance))
        if instance == 2:
            raise ConnectionError("gone")
        if instance == 3:
            await asyncio.get_running_loop().create_future()
        return self._answer()

    async def _answer(self) -> AsyncIterator[Any]:
        await asyncio.sleep(0)
        yield ["an answer"]
        self.answered.set()


def test_all_are_asked_and_those_that_do_not_answer_are_named() -> None:
    async def ask() -> None:
        found.extend(await Peers(client).ask(Question.GROUPS))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await client.answered.wait()
            for _ in range(20):  # what was answered is taken, on both loops
                await from_asyncio(asyncio.sleep(0))
            clock.jump(PATIENCE + 1)

    client, found, clock = Client(), list[Any](), trio.testing.MockClock()
    run_as_guest(main, clock)
    assert found == [{worker_name(1): ["an answer"]}, [worker_name(2), worker_name(3)]]
    assert {instance for _, instance in client.asked} == {1, 2, 3}
    assert client.asked[0][0] == {"question": "groups"}


def test_one_alone_is_asked() -> None:
    async def main() -> None:
        found.extend(await Peers(client).ask(Question.CANCEL, worker_name(1), id="r"))

    client, found = Client(), list[Any]()
    run_as_guest(main)
    assert found == [{worker_name(1): ["an answer"]}, []]
    assert client.asked == [({"question": "cancel", "id": "r"}, 1)]


def test_who_asks_is_not_asked() -> None:
    assert Peers(Client(), but=worker_name(2)).ids() == [worker_name(1), worker_name(3)]


def test_a_worker_answers_once() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            handler = answers(nursery, Desk(as_engine(FakeEngine()), Succession()))
            found.extend(await from_asyncio(collect(handler(asked(Question.GROUPS, {})))))

    async def collect(stream: AsyncIterator[Any]) -> list[Any]:
        return [piece async for piece in stream]

    found = list[Any]()
    run_as_guest(main)
    assert found == [[]]
