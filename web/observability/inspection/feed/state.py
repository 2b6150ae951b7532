"""State of the engine, in one object: what each frame of the feed has."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from web.observability.inspection.answers import counts
from web.observability.inspection.visible import runs_shown, shown, slots_shown

if TYPE_CHECKING:
    from actors.engine import Engine
    from web.observability.inspection.feed.answers import EngineState, Frame
    from web.observability.inspection.visible import Sight
    from web.storage.detached.runs import Runs

RECEIPTS = 50
"""The newest ones, that a viewer gets to begin with."""

DETACHABLE = 40
"""Requests that may outlive their clients, of which a frame tells at most."""


def state(engine: Engine, runs: Runs | None, key: Sight | None) -> EngineState:
    """Return what changes: requests, slots and counts, as whoever has the key may see them."""
    return {
        "health": engine.health(),
        "requests": list(shown(engine.requests(), key)),
        "detachable": [run.status() for run in islice(runs_shown(runs, key), DETACHABLE)],
        "slots": list(slots_shown(engine, key)),
        "statistics": counts(engine, runs),
    }


def add_beginning(frame: Frame, engine: Engine, key: Sight | None) -> None:
    """Add what a viewer gets once: what does not change, and the newest cancels, the newest first."""
    frame["model"] = engine.model.name
    frame["context"] = engine.model.context_length
    frame["queue"] = engine.config.queue
    frame["step_seconds"] = engine.config.step_seconds
    frame["receipts"] = list(islice(shown(engine.receipts(), key), RECEIPTS))
