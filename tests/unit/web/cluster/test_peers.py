"""Questions through Dynamo's client, which is a stand-in here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import trio

from tests.fakes.dynamo_binding import taken_elsewhere
from tests.fakes.dynamo_context import Context
from tests.fakes.engine import FakeEngine, as_engine
from web.cluster.control.desk import Desk
from web.cluster.control.feed.teller import Teller
from web.cluster.control.questions import EVENTS, Question, asked, worker_name
from web.cluster.control.succession import Succession
from web.cluster.guest import from_asyncio, run_as_guest
from web.cluster.peers import PATIENCE, Peers, answers
from web.observability.inspection.feed.feed import Feed


class Client:
    """Dynamo's: instance 1 answers, 2 is gone, and 3 says nothing."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, int]] = []
        self.answered = trio.Event()

    def instance_ids(self) -> list[int]:
        """All that are known."""
        return [3, 1, 2]

    async def direct(
        self,
        request: Any,  # noqa: ANN401
        instance: int,
        *,
        annotated: bool,
        context: object = None,
    ) -> AsyncIterator[Any]:
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
            handler = worker(nursery)
            found.extend(await from_asyncio(collect(handler(asked(Question.GROUPS, {}), None))))

    async def collect(stream: AsyncIterator[Any]) -> list[Any]:
        return [piece async for piece in stream]

    found = list[Any]()
    run_as_guest(main)
    assert found == [[]]


def worker(nursery: trio.Nursery) -> Callable[..., AsyncIterator[Any]]:
    """Return what Dynamo calls."""
    engine = as_engine(FakeEngine())
    return answers(nursery, Desk(engine, Succession()), Teller(Feed(engine), nursery))


def test_a_worker_tells_of_itself_for_as_long_as_somebody_listens() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            told, ending = Telling(worker(nursery)), Ending()
            async with aclosing(Peers(told, context=lambda: ending).frames(worker_name(1))) as frames:
                frame = await anext(frames)
                assert frame is not None
                kinds.append(frame.kind)
                stopped.append(ending.stopped)
            stopped.append(ending.stopped)
            told.context.stop()

    kinds, stopped = list[str](), list[bool]()
    run_as_guest(main)
    assert (kinds, stopped) == (["snapshot"], [False, True])


def test_a_worker_tells_nothing_more_once_another_thread_has_dropped_what_it_tells() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            handler, ask, context = worker(nursery), {"question": EVENTS}, Context()
            frames = await taken_elsewhere(lambda: handler(ask, context), 1)
            kinds.extend(frame["kind"] for frame in frames)
            await trio.testing.wait_all_tasks_blocked()
            left.extend(nursery.child_tasks)
            context.stop()  # so that the test ends

    kinds, left = list[str](), list[object]()
    run_as_guest(main)
    assert (kinds, left) == (["snapshot"], [])


class Ending:
    """End of a stream."""

    def __init__(self) -> None:
        self.stopped = False

    def stop_generating(self) -> None:
        """End it."""
        self.stopped = True


class Telling:
    """Dynamo's client of one worker that tells."""

    def __init__(self, handler: Callable[..., AsyncIterator[Any]]) -> None:
        self._handler = handler

    async def direct(
        self,
        request: Any,  # noqa: ANN401
        instance: int,
        *,
        annotated: bool,
        context: Ending,
    ) -> AsyncIterator[Any]:
        """Ask for a stream."""
        assert (instance, annotated) == (1, False)
        self.context = Context()
        return self._handler(request, self.context)


def test_a_stream_that_cannot_be_had_has_nothing_and_is_given_up() -> None:
    async def main() -> None:
        gone = Peers(client, context=lambda: context).frames(worker_name(2))
        assert [frame async for frame in gone] == []
        stopped.append(context.stopped)
        context.stopped = False
        with trio.move_on_after(5):
            async with aclosing(Peers(client, context=lambda: context).frames(worker_name(3))) as frames:
                await anext(frames)
        stopped.append(context.stopped)

    client, context, stopped = Client(), Ending(), list[bool]()
    run_as_guest(main, trio.testing.MockClock(autojump_threshold=0.01))
    assert stopped == [True, True]
