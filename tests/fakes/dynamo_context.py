"""Context of a request as Dynamo gives it, without Dynamo."""

from __future__ import annotations

import asyncio


class Context:
    """Context of a request; `stop` is a hang-up."""

    def __init__(self, name: str = "r1") -> None:
        self._name = name
        self._stopped: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def id(self) -> str:
        """The request's."""
        return self._name

    def async_killed_or_stopped(self) -> asyncio.Future[bool]:
        """Done when the client is gone."""
        return asyncio.ensure_future(self._wait())

    async def _wait(self) -> bool:
        return await asyncio.shield(self._stopped)

    def stop(self) -> None:
        """Hang up."""
        self._stopped.set_result(True)
