"""One answer out of those of all workers.  Each thing says which worker it is of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.groups.group import LiveGroup
from web.cluster.control.questions import labelled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from web.cluster.control.questions import Json

PREFIXES = ("chatcmpl-", "cmpl-", "resp_")
"""Of ids of the front door's answers, behind which stands the request's."""


def all_of(answers: Mapping[str, list[Json]]) -> list[Any]:
    """Return what all workers have, worker by worker; it is their JSON, and some may be of another version of cede."""
    return [value for worker, values in sorted(answers.items()) for value in labelled(worker, values)]


def oldest_first(answers: Mapping[str, list[Json]]) -> list[Any]:
    """Requests, by when they came."""
    return sorted(all_of(answers), key=lambda request: request["created"])


def newest_first(answers: Mapping[str, list[Json]], limit: int) -> list[Any]:
    """Receipts, at most so many."""
    return sorted(all_of(answers), key=lambda receipt: -receipt["detected_at"])[:limit]


def groups(answers: Mapping[str, list[Json]]) -> list[LiveGroup]:
    """Groups by their names, each with its requests on all workers."""
    found: dict[str, list[str]] = {}
    for _, values in sorted(answers.items()):
        for group in values:
            found.setdefault(group["name"], []).extend(group["requests"])
    return [LiveGroup(name, None, tuple(ids)) for name, ids in found.items()]


def holders(answers: Mapping[str, list[Json]], request_id: str) -> list[tuple[str, str]]:
    """Return who has a live request of that id: workers, each with the id that it knows it by.

    The front door's answers call a request by a longer id than its worker does; that is looked for only where nobody
    has the one that was given.
    """
    for name in names_of(request_id):
        found = [(worker, name) for worker, live in sorted(answers.items()) if any(one["id"] == name for one in live)]
        if found:
            return found
    return []


def names_of(request_id: str) -> list[str]:
    """The ids by which a worker may know it, the given one first."""
    return [request_id, *(request_id.removeprefix(prefix) for prefix in PREFIXES if request_id.startswith(prefix))]


def statistics(answers: Mapping[str, Any]) -> list[Any]:
    """Return the statistics of each worker."""
    return [{"worker": worker} | answer for worker, answer in sorted(answers.items())]
