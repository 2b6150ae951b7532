"""Sample of a server: what it says of itself in one moment.  Pure, but for asking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runtime.errors import CedeError

if TYPE_CHECKING:
    from web.commands.client.connection import Connection

Json = dict[str, Any]

RECEIPTS = 8


@dataclass(frozen=True, slots=True)
class Sample:
    """The server in one moment.

    Attributes:
        at: seconds, on whatever clock it was asked by.
        now: the same in seconds since the epoch, in which the server writes times.
        model: as `/v1/models` has it.
        slots, requests, receipts: lists, as their endpoints have them.
        manager, speculation, detachable: of `/v1/statistics`; the last is None where no request may outlive its client.
    """

    at: float
    now: float
    model: Json
    slots: list[Json]
    requests: list[Json]
    receipts: list[Json]
    manager: Json
    speculation: Json
    detachable: Json | None = None


class NotUnderstood(CedeError):
    """Error of an answer that is not cede's, or another version's."""


async def take_sample(connection: Connection, at: float, now: float) -> Sample:
    """Ask a server for all that is shown.

    Raises:
        CedeError: it cannot be asked, or what it answers is not understood.
    """
    try:
        (model,) = (await connection.get("/v1/models"))["data"]
        statistics = await connection.get("/v1/statistics")
        return Sample(
            at,
            now,
            model,
            slots=(await connection.get("/slots"))["slots"],
            requests=(await connection.get("/v1/requests"))["data"],
            receipts=(await connection.get("/v1/receipts", limit=RECEIPTS))["data"],
            manager=statistics["manager"],
            speculation=statistics["speculation"],
            detachable=statistics["detachable"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise NotUnderstood(f"what answers at {connection.url} is no cede of this version ({error!r})") from None
