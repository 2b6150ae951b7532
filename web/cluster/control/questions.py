"""Questions to a worker, and who asks them: plain JSON that goes through Dynamo."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

Json: TypeAlias = dict[str, Any]


class Question(enum.StrEnum):
    """The questions.

    Attributes:
        REQUESTS: the live requests.
        RECEIPTS: what cancels have cost; with `limit`, `request_ids` (None for all), and `wait`, seconds for which to
            wait for the end of those of them that live.
        SLOTS: what each slot does.
        STATISTICS: counts since the start.
        GROUPS: the groups that have live requests.
        CANCEL: end the request `id`; answers whether it lived.
        END_GROUP: end the group `name`; answers the ids of those that were ended.
        SUPERSEDE: a request of the name `name` has come, with the stamp `stamp`, and takes the place of older ones;
            answers the newest stamp of that name.
    """

    REQUESTS = "requests"
    RECEIPTS = "receipts"
    SLOTS = "slots"
    STATISTICS = "statistics"
    GROUPS = "groups"
    CANCEL = "cancel"
    END_GROUP = "end_group"
    SUPERSEDE = "supersede"


EVENTS = "events"
"""Asked in a question's place: what the worker does, while it does it, as a stream (`web.cluster.control.feed`)."""


class Workers(Protocol):
    """All workers that discovery knows, to be asked.  Called from Trio."""

    async def ask(
        self,
        question: Question,
        worker: str | None = None,
        **about: Any,  # noqa: ANN401  # JSON
    ) -> tuple[Json, list[str]]:
        """Ask all of them at once, or one.

        Args:
            question: which.
            worker: the id of the only one to ask.
            about: what is asked with it.

        Returns:
            The answers by the workers' ids, and the ids of those that did not answer in time.
        """
        ...


def asked(question: Question, about: Json) -> Json:
    """The question, as it is sent."""
    return {"question": question.value} | about


def worker_name(instance: int) -> str:
    """A worker's id, as `cede worker` prints it."""
    return f"{instance:016x}"


def labelled(worker: str, values: Iterable[Json]) -> list[Json]:
    """Values of one worker, which say whose they are."""
    return [value | {"worker": worker} for value in values]
