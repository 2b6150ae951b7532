"""Answers of the control address, for its OpenAPI document: of all workers, each thing with its worker."""

from __future__ import annotations

from pydantic import Field

from web.generation.control.groups import EndedGroup, GroupList
from web.observability.inspection.answers import Cancelled, LiveRequest, Manager, Receipt, Slot, Speculation, Unread
from web.observability.inspection.feed.answers import Frame
from web.openapi.operations import Answer

WORKER = Field(description="The worker's id, 16 hexadecimal digits.")
UNREACHABLE = Field(description="Workers that did not answer in time.")


class RequestAt(LiveRequest):
    """A live request at a worker."""

    worker: str = WORKER


class RequestsOfAll(Answer):
    """The live requests of all workers, the oldest first."""

    data: list[RequestAt]
    unreachable: list[str] = UNREACHABLE


class CancelledAt(Cancelled):
    """The request was live at that worker, and ends.  Who is unreachable may have another one of that id."""

    worker: str = WORKER
    unreachable: list[str] = UNREACHABLE


class ReceiptAt(Receipt):
    """Receipt of one cancel, at a worker."""

    worker: str = WORKER


class ReceiptsOfAll(Answer):
    """The newest receipts of all workers, the newest first."""

    data: list[ReceiptAt]
    unreachable: list[str] = UNREACHABLE


class SlotAt(Slot):
    """A slot of a worker."""

    worker: str = WORKER


class SlotsOfAll(Answer):
    """All slots of all workers."""

    slots: list[SlotAt]
    unreachable: list[str] = UNREACHABLE


class StatisticsOf(Answer):
    """A worker's counts since its start, and what it holds now."""

    worker: str = WORKER
    live_requests: int
    manager: Manager
    speculation: Speculation
    unread: Unread


class StatisticsOfAll(Answer):
    """Statistics of each worker."""

    data: list[StatisticsOf]
    unreachable: list[str] = UNREACHABLE


class GroupsOfAll(GroupList):
    """The groups, each with its requests at all workers."""

    unreachable: list[str] = UNREACHABLE


class GroupEndedAtAll(EndedGroup):
    """The ids of the requests that were ended, at all workers."""

    unreachable: list[str] = UNREACHABLE


class FrameOf(Frame):
    """Events at a worker since its frame before, and how its engine stands now."""

    worker: str = WORKER
