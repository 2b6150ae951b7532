"""Sample of a server: what it says of itself in one moment.  Pure, but for asking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from runtime.errors import CedeError
from web.commands.client.connection import Refused

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
        engines: statistics by the workers of a cluster, of which slots and requests then say theirs; under "" of a
            server alone.
    """

    at: float
    now: float
    model: Json
    slots: list[Json]
    requests: list[Json]
    receipts: list[Json]
    engines: dict[str, Json]

    def slots_of(self, worker: str) -> list[Json]:
        """The slots of a worker of the cluster, or all of a server alone."""
        return [slot for slot in self.slots if worker_of(slot) == worker]


def worker_of(told: Json) -> str:
    """The worker that a slot or a request is at; empty for a server alone."""
    worker: str = told.get("worker", "")
    return worker


class NotUnderstood(CedeError):
    """Error of an answer that is not cede's, or another version's."""


async def take_sample(connection: Connection, at: float, now: float) -> Sample:
    """Ask a server for all that is shown.

    Raises:
        CedeError: it cannot be asked, or what it answers is not understood.
    """
    try:
        model = await connection.model()
        statistics = await connection.get("/v1/statistics")
        engines = {one.get("worker", ""): one for one in statistics.get("data", [statistics])}
        return Sample(
            at,
            now,
            model,
            slots=(await connection.get("/slots"))["slots"],
            requests=(await connection.get("/v1/requests"))["data"],
            receipts=(await connection.get("/v1/receipts", limit=RECEIPTS))["data"],
            engines=engines,
        )
    except Refused as error:
        if error.status != httpx.codes.NOT_FOUND:
            raise
        raise NotUnderstood(f"{connection.url} has not all that is shown; of a cluster it is the front door") from None
    except (KeyError, TypeError, ValueError) as error:
        raise NotUnderstood(f"what answers at {connection.url} is no cede of this version ({error!r})") from None
