"""View of the engine for a client: what its key has asked; all of it where there are no keys, or with an admin's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from actors.core.generation import LiveRequest
    from actors.core.receipts import Receipt
    from actors.core.slot_views import SlotStatus
    from actors.engine import Engine
    from actors.groups.request_groups import LiveGroup
    from web.storage.detached.run import Run
    from web.storage.detached.runs import Runs

ShownT = TypeVar("ShownT", "LiveGroup", "LiveRequest", "Receipt")


class Sight(Protocol):
    """Rights to see the engine, as an API key gives them."""

    def may_see(self, owner: str | None) -> bool:
        """Return whether a request of `owner` is among it."""


def shown(values: Iterable[ShownT], key: Sight | None) -> Iterator[ShownT]:
    """Yield what is for whoever has the key to see and to cancel; `key` is None where there are no keys."""
    return (value for value in values if key is None or key.may_see(value.owner))


def runs_shown(runs: Runs | None, key: Sight | None) -> Iterator[Run]:
    """Yield the requests that may outlive their clients, and are for whoever has the key to see."""
    return (run for run in runs or () if key is None or key.may_see(run.owner))


def ids_shown(engine: Engine, key: Sight | None) -> set[str]:
    """Return the ids of the live requests that are for whoever has the key to see."""
    return {status.id for status in shown(engine.requests(), key)}


def slots_shown(engine: Engine, key: Sight | None) -> Iterable[SlotStatus]:
    """Return all slots; those of others do not tell the request's id."""
    if key is None:
        return engine.slots()
    visible = ids_shown(engine, key)
    return (slot if slot.request_id in visible else replace(slot, request_id=None) for slot in engine.slots())
