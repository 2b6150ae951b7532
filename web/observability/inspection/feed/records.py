"""The engine's events as they are told: plain JSON, without tokens, and with the time at which each was heard."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from actors.core.events import StepBegins
    from actors.core.slot_views import GenerationKey
    from web.observability.inspection.visible import Sight

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Record:
    """Something that happened to one generation, or to the server.

    Attributes:
        value: what is told of it.
        owner: the name of the API key that asked for the generation; None where there are no keys.
        is_open: everybody may see it.
    """

    value: Json
    owner: str | None = None
    is_open: bool = False

    def shown_to(self, key: Sight | None) -> Json | None:
        """Return what whoever has the key is told; None for nothing."""
        return self.value if self.is_open or key is None or key.may_see(self.owner) else None


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A step that begins.  Everybody sees it, as everybody sees the slots; of others' parts nobody sees whose they are.

    Attributes:
        event: as it was told.
        at: when.
        owners: of the parts, in order.
    """

    event: StepBegins
    at: float
    owners: tuple[str | None, ...]

    def shown_to(self, key: Sight | None) -> Json:
        """Return what whoever has the key is told."""
        parts = []
        for part, owner in zip(self.event.parts, self.owners, strict=True):
            is_shown = key is None or key.may_see(owner)
            parts.append(
                {
                    "request_id": part.request_id if is_shown else None,
                    "index": part.index if is_shown else None,
                    "slot": part.slot,
                    "phase": part.phase.value,
                    "start": part.start,
                    "rows": len(part.token_ids),
                    "drafts": part.drafts,
                }
            )
        event = self.event
        return {"type": "step_begins", "at": self.at, "step": event.number, "drafting": event.drafting, "parts": parts}


@dataclass(frozen=True, slots=True)
class StepEndRecord:
    """A step that has ended, which becomes an object where it is told, as there are so many."""

    number: int
    drafting: bool
    failed: bool
    steps: int  # of a burst
    at: float

    def shown_to(self, key: Sight | None) -> Json:
        """Return what everybody is told."""
        about = {"step": self.number, "drafting": self.drafting, "failed": self.failed, "steps": self.steps}
        return {"type": "step_ended", "at": self.at} | about


AnyRecord = Record | StepRecord | StepEndRecord


def of_generation(kind: str, at: float, key: GenerationKey, owner: str | None, **fields: Any) -> Record:  # noqa: ANN401
    """Return the record of something that happened to a generation."""
    return Record({"type": kind, "at": at, "request_id": key[0], "index": key[1]} | fields, owner)


def of_server(kind: str, at: float, **fields: Any) -> Record:  # noqa: ANN401
    """Return the record of something that everybody may know."""
    return Record({"type": kind, "at": at} | fields, is_open=True)


class Ring:
    """The newest records, numbered from the first one on; the oldest give way.

    There is one place for all viewers, so that another one costs nothing.

    Attributes:
        end: the number that the next record gets.

    Args:
        capacity: how many records it holds.
    """

    def __init__(self, capacity: int) -> None:
        self._records: deque[AnyRecord] = deque(maxlen=capacity)
        self.end = 0

    def append(self, record: AnyRecord) -> None:
        """Add the newest record."""
        self._records.append(record)
        self.end += 1

    def read(self, position: int, most: int) -> tuple[list[AnyRecord], int]:
        """Return up to `most` records from `position` on, and how many before them are no longer there."""
        first = self.end - len(self._records)
        lost = max(0, first - position)
        begin = position + lost - first
        return list(islice(self._records, begin, begin + most)), lost
