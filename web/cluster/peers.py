"""Workers that are asked through Dynamo: the endpoint at which each answers, and the client that asks."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import trio

from web.cluster.control.questions import EVENTS, asked, worker_name
from web.cluster.guest import from_asyncio, from_trio
from web.observability.inspection.feed.frames import Frame

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

    from web.cluster.control.desk import Desk
    from web.cluster.control.feed.teller import Teller
    from web.cluster.control.questions import Json, Question
    from web.cluster.handoff import Context

logger = logging.getLogger("cede.web")

ENDPOINT = "backend.control"
"""Beside the endpoint that generates; of a worker both have the same id."""

PATIENCE = 2.0
"""Seconds in which a worker has to answer, beyond what it was asked to wait."""


def answers(nursery: trio.Nursery, desk: Desk, teller: Teller) -> Callable[..., AsyncIterator[Any]]:
    """Return what Dynamo calls with each question; it answers once, but where a stream is asked for.

    Args:
        nursery: Trio's, in which the questions are answered.
        desk: answers them.
        teller: tells of the worker in streams.
    """

    def answer(request: Json, context: Context) -> AsyncIterator[Any]:
        """Called in a thread of Dynamo's: what it makes begins in the loop's."""
        if request["question"] == EVENTS:
            return teller.tell(context)
        return once(partial(desk.answer, request))

    async def once(ask: Callable[[], Awaitable[Any]]) -> AsyncIterator[Any]:
        yield await from_trio(nursery, ask)

    return answer


def stream_context() -> Any:  # noqa: ANN401  # Dynamo's
    """Return what ends a stream of Dynamo's before its end."""
    from dynamo.runtime import Context

    return Context()


class Peers:
    """The workers that discovery knows.

    Args:
        client: Dynamo's, of their endpoint.
        but: the id of one that is not asked: of the worker that asks.
        context: makes what ends a stream, Dynamo's `Context`.
    """

    def __init__(
        self,
        client: Any,  # noqa: ANN401  # Dynamo's
        but: str | None = None,
        context: Callable[[], Any] = stream_context,
    ) -> None:
        self._client = client
        self._but = but
        self._context = context

    @classmethod
    async def open(cls, runtime: Any, namespace: str, but: str | None = None) -> Self:  # noqa: ANN401  # Dynamo's
        """Find those of a namespace, from now on.  asyncio's."""
        return cls(await runtime.endpoint(f"{namespace}.{ENDPOINT}").client(), but)

    def ids(self) -> list[str]:
        """Return the ids of all of them, in order."""
        return sorted(set(map(worker_name, self._client.instance_ids())) - {self._but})

    async def ask(self, question: Question, worker: str | None = None, **about: Any) -> tuple[Json, list[str]]:  # noqa: ANN401  # JSON
        """Ask all of them at once, or one; see `web.cluster.control.questions.Workers`."""
        found: Json = {}
        workers = self.ids() if worker is None else [worker]
        patience = PATIENCE + about.get("wait", 0)

        async def ask_one(name: str) -> None:
            with trio.move_on_after(patience):
                try:
                    found[name] = await from_asyncio(self._ask(asked(question, about), int(name, 16)))
                except Exception as error:  # Dynamo's, of many kinds: it is gone, or goes
                    logger.info("worker %s does not answer: %s", name, error)

        async with trio.open_nursery() as nursery:
            for name in workers:
                nursery.start_soon(ask_one, name)
        return found, [name for name in workers if name not in found]

    async def frames(self, worker: str) -> AsyncGenerator[Frame | None]:
        """Yield what a worker tells of itself, and None as a sign of life, until it ends or cannot be reached.

        To be closed, which ends the stream at the worker at once.
        """
        context = self._context()
        request, instance = {"question": EVENTS}, int(worker, 16)
        try:
            call = self._client.direct(request, instance, annotated=False, context=context)
            pieces = aiter(await from_asyncio(call))
            while (piece := await from_asyncio(_next(pieces))) is not None:
                yield Frame(**piece) if piece else None
        except Exception as error:  # Dynamo's, of many kinds: it is gone, or goes
            logger.info("worker %s tells no more: %s", worker, error)
        finally:
            context.stop_generating()

    async def _ask(self, request: Json, instance: int) -> Any:  # noqa: ANN401  # JSON
        stream = await self._client.direct(request, instance, annotated=False)
        (answer,) = [piece async for piece in stream]
        return answer


async def _next(pieces: AsyncIterator[Json]) -> Json | None:
    return await anext(pieces, None)


def serve_peers(
    endpoint: Any,  # noqa: ANN401  # Dynamo's
    nursery: trio.Nursery,
    desk: Desk,
    teller: Teller,
) -> asyncio.Future[None]:
    """Let a worker answer, until its runtime is shut down."""
    serving: Awaitable[None] = endpoint.serve_endpoint(answers(nursery, desk, teller))
    return asyncio.ensure_future(serving)
