"""Steps that all take the same time, and clients that come together."""

from __future__ import annotations

import functools
from typing import Any

import trio

from tests.fakes.simulation import Simulation, Story

STEP = 0.01  # seconds, where every step takes the same


def same_time(_rows: int) -> float:
    """Return the seconds of a step, whatever it computes."""
    return STEP


async def together(sim: Simulation, *clients: tuple[Story, dict[str, Any]]) -> None:
    """Let these clients come at once, each with its behaviour."""
    async with trio.open_nursery() as nursery:
        for story, behaviour in clients:
            nursery.start_soon(functools.partial(sim.client, story.asked, **behaviour))
