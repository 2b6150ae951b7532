"""Answers of the endpoints that look at the engine.  Times are seconds since the epoch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, NotRequired

from typing_extensions import TypedDict

from actors.core.generation import LiveRequest
from actors.core.receipts import Receipt
from actors.core.slot_views import SlotStatus
from actors.diagnostics.loop_holds import LoopStatistics
from actors.generating.unread import UnreadStatistics
from actors.manager.statistics import ManagerStatistics, SpeculationStatistics
from web.generation.openai_format.errors import ErrorDetails
from web.storage.detached.run import DetachableRequest
from web.storage.detached.runs import DetachableStatistics

if TYPE_CHECKING:
    from actors.engine import Engine
    from web.storage.detached.runs import Runs


class Healthy(TypedDict):
    """The server serves."""

    status: Literal["ok"]


class Unhealthy(TypedDict):
    """The server does not serve: the error says why."""

    status: Literal["unavailable"]
    error: ErrorDetails


class SlotList(TypedDict):
    """All slots."""

    slots: Iterable[SlotStatus]


class RequestList(TypedDict):
    """The live requests, the oldest first.

    Attributes:
        detachable: those of them that may outlive their clients, and those whose answers are kept.
    """

    data: Iterable[LiveRequest]
    detachable: Iterable[DetachableRequest]


class Cancelled(TypedDict):
    """The request was live, and ends."""

    id: str
    cancelled: Literal[True]


class ReceiptList(TypedDict):
    """The newest receipts, the newest first."""

    data: Iterable[Receipt]


class Counts(TypedDict):
    """Counts since the start, and what is held now.

    Attributes:
        detachable: None where no request may outlive its client.
        loop: only at `/v1/statistics`, with `--watch-loop`.
    """

    live_requests: int
    manager: ManagerStatistics
    speculation: SpeculationStatistics
    unread: UnreadStatistics
    detachable: DetachableStatistics | None
    loop: NotRequired[LoopStatistics]


class Statistics(Counts):
    """Counts since the start, and what is held now.

    Attributes:
        tasks: of the event loop, that live.
    """

    tasks: int


def counts(engine: Engine, runs: Runs | None) -> Counts:
    """Return those of an engine, and of its requests that may outlive their clients."""
    statistics = engine.statistics()
    return {
        "live_requests": statistics.live_requests,
        "manager": statistics.manager,
        "speculation": statistics.speculation,
        "unread": statistics.unread,
        "detachable": None if runs is None else runs.statistics(),
    }
