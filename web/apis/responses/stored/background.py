"""Responses that begin without a client; from then on they are like others that their clients have left."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from web.apis.responses.stored.making import Making

if TYPE_CHECKING:
    from contextlib import ExitStack

    from web.apis.responses.answers import Response
    from web.apis.responses.output.envelope import ResponseOptions
    from web.apis.responses.stored.archive import Archive
    from web.apis.responses.stored.conversations import ConversationLease
    from web.generation.asked import Asked
    from web.storage.detached.run import Run
    from web.storage.detached.runs import Runs


class BackgroundResponses:
    """Begins responses in the background; `runs` has them from then on.

    Args:
        runs: their owner.
        archive: where they are stored, from their admission on.
        keep_alive: seconds of silence after which a stream says that it is alive.

    Attributes:
        runs: the same.
    """

    def __init__(self, runs: Runs, archive: Archive, keep_alive: float) -> None:
        self.runs = runs
        self._archive = archive
        self._keep_alive = keep_alive

    async def start(
        self, parsed: Asked[ResponseOptions], place: ExitStack, turn: ConversationLease | None = None
    ) -> tuple[Run, Response]:
        """Begin a response, and return it, and the response object, once it is admitted and stored.

        Args:
            parsed: the request, as its client may ask it.
            place: what the client's key has in use for it.  If the response begins, this is emptied, and what was in
                it is left when the response has ended.
            turn: of its conversation, which is to be in `place`, too; None where it has none.

        Raises:
            CedeError: it is refused, or cannot be stored.
        """
        making = Making(parsed, self._archive, self._keep_alive, turn)
        run = await self.runs.start(replace(parsed.request, timeout=self.runs.bounds.timeout), making, place)
        assert making.begun is not None
        return run, making.begun
