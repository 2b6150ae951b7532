"""Workers that are asked through Dynamo: the endpoint at which each answers, and the client that asks."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import trio

from web.cluster.control.questions import asked, worker_name
from web.cluster.guest import from_asyncio, from_trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from web.cluster.control.desk import Desk
    from web.cluster.control.questions import Json, Question

logger = logging.getLogger("cede.web")

ENDPOINT = "backend.control"
"""Beside the endpoint that generates; of a worker both have the same id."""

PATIENCE = 2.0
"""Seconds in which a worker has to answer, beyond what it was asked to wait."""


def answers(nursery: trio.Nursery, desk: Desk) -> Callable[..., AsyncIterator[Any]]:
    """What Dynamo calls with each question; it answers once.

    Args:
        nursery: Trio's, in which the questions are answered.
        desk: answers them.
    """

    async def answer(request: Json) -> AsyncIterator[Any]:
        yield await from_trio(nursery, partial(desk.answer, request))

    return answer


class Peers:
    """The workers that discovery knows.

    Args:
        client: Dynamo's, of their endpoint.
        but: the id of one that is not asked: of the worker that asks.
    """

    def __init__(self, client: Any, but: str | None = None) -> None:  # noqa: ANN401  # Dynamo's
        self._client = client
        self._but = but

    @classmethod
    async def open(cls, runtime: Any, namespace: str, but: str | None = None) -> Self:  # noqa: ANN401  # Dynamo's
        """Find those of a namespace, from now on.  asyncio's."""
        return cls(await runtime.endpoint(f"{namespace}.{ENDPOINT}").client(), but)

    def ids(self) -> list[str]:
        """Of all of them, in order."""
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

    async def _ask(self, request: Json, instance: int) -> Any:  # noqa: ANN401  # JSON
        stream = await self._client.direct(request, instance, annotated=False)
        (answer,) = [piece async for piece in stream]
        return answer


def serve_peers(endpoint: Any, nursery: trio.Nursery, desk: Desk) -> asyncio.Future[None]:  # noqa: ANN401  # Dynamo's
    """Let a worker answer, until its runtime is shut down."""
    serving: Awaitable[None] = endpoint.serve_endpoint(answers(nursery, desk))
    return asyncio.ensure_future(serving)
