"""Requests of two priorities, of which one makes way for the other."""

from __future__ import annotations

import trio

from tests.fakes.kv_simulation import KVSimulation, text, until
from tests.fakes.simulation import Story, ask


async def low(
    sim: KVSimulation, clients: trio.Nursery, *, tokens: int = 60, length: int = 150, **more: object
) -> Story:
    """Begin a long, unimportant answer, and return when ten tokens of it are there."""
    story = sim.expect(ask("low", text(length, 1), max_tokens=tokens, priority=10, **more))
    clients.start_soon(sim.client, story.asked)
    await until(lambda: len(story.events) >= 10)
    return story


def has_read(story: Story, events: int) -> bool:
    """Return whether a client has read so many events, or all."""
    return len(story.events) > events or story.ended


async def high(sim: KVSimulation, name: str = "high", *, tokens: int = 5, seed: int = 2) -> Story:
    """Ask for something important, and wait for it."""
    return await sim.client(ask(name, text(70, seed), max_tokens=tokens))


async def preempted(sim: KVSimulation, clients: trio.Nursery) -> Story:
    """Begin an unimportant answer, ask for something important, and return when the first is preempted for it."""
    story = await low(sim, clients)
    clients.start_soon(high, sim, "high")
    await until(lambda: sim.manager.statistics().parked == 1)
    return story
