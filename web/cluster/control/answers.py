"""Answers of the control address: of all workers, each thing with its worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from actors.core.generation import LiveRequest
from actors.core.receipts import Receipt
from actors.core.slot_views import SlotStatus
from actors.manager.statistics import EngineStatistics
from web.generation.control.groups import EndedGroup, GroupList
from web.observability.inspection.answers import Cancelled
from web.observability.inspection.feed.answers import Frame

Worker = Annotated[str, Field(description="The worker's id, 16 hexadecimal digits.")]
Unreachable = Annotated[list[str], Field(description="Workers that did not answer in time.")]


@dataclass(frozen=True, kw_only=True)
class RequestAt(LiveRequest):
    """A live request at a worker."""

    worker: Worker


class RequestsOfAll(TypedDict):
    """The live requests of all workers, the oldest first."""

    data: list[RequestAt]
    unreachable: Unreachable


class CancelledAt(Cancelled):
    """The request was live at that worker, and ends.  Who is unreachable may have another one of that id."""

    worker: Worker
    unreachable: Unreachable


@dataclass(frozen=True, kw_only=True)
class ReceiptAt(Receipt):
    """Receipt of one cancel, at a worker."""

    worker: Worker


class ReceiptsOfAll(TypedDict):
    """The newest receipts of all workers, the newest first."""

    data: list[ReceiptAt]
    unreachable: Unreachable


@dataclass(frozen=True, kw_only=True)
class SlotAt(SlotStatus):
    """A slot of a worker."""

    worker: Worker


class SlotsOfAll(TypedDict):
    """All slots of all workers."""

    slots: list[SlotAt]
    unreachable: Unreachable


@dataclass(frozen=True, kw_only=True)
class StatisticsOf(EngineStatistics):
    """A worker's counts since its start, and what it holds now."""

    worker: Worker


class StatisticsOfAll(TypedDict):
    """Statistics of each worker."""

    data: list[StatisticsOf]
    unreachable: Unreachable


class GroupsOfAll(GroupList):
    """The groups, each with its requests at all workers."""

    unreachable: Unreachable


class GroupEndedAtAll(EndedGroup):
    """The ids of the requests that were ended, at all workers."""

    unreachable: Unreachable


class FrameOf(Frame):
    """Events at a worker since its frame before, and how its engine stands now."""

    worker: Worker
