"""State of the engine, in one object: what each frame of the feed has."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING

from web.observability.inspection.visible import runs_shown, shown, slots_shown

if TYPE_CHECKING:
    from actors.engine import Engine
    from web.observability.inspection.feed.records import Json
    from web.observability.inspection.visible import Sight
    from web.storage.detached.runs import Runs

RECEIPTS = 50
"""The newest ones, that a viewer gets to begin with."""

DETACHABLE = 40
"""Requests that may outlive their clients, of which a frame tells at most."""


def state(engine: Engine, runs: Runs | None, key: Sight | None) -> Json:
    """Return what changes: requests, slots and counts, as whoever has the key may see them."""
    detachable = None if runs is None else asdict(runs.statistics())
    return {
        "health": engine.health(),
        "requests": [asdict(status) for status in shown(engine.requests(), key)],
        "detachable": [asdict(run.status()) for run in islice(runs_shown(runs, key), DETACHABLE)],
        "slots": [asdict(slot) for slot in slots_shown(engine, key)],
        "statistics": asdict(engine.statistics()) | {"detachable": detachable},
    }


def beginning(engine: Engine, key: Sight | None) -> Json:
    """Return what a viewer gets once: what does not change, and the newest cancels, the newest first."""
    config = engine.config
    return {
        "model": engine.model.name,
        "context": engine.model.context_length,
        "queue": config.queue,
        "step_seconds": config.step_seconds,
        "receipts": [asdict(receipt) for receipt in islice(shown(engine.receipts(), key), RECEIPTS)],
    }
