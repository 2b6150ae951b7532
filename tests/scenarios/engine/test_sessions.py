"""Sessions: whose KV in the slots is displaced first, seen through the engine."""

from __future__ import annotations

import pytest

from runtime.kv.blocks import BLOCK_TOKENS
from tests.fakes.kv_simulation import open_kv_simulation, text
from tests.fakes.simulation import ask, simulated

SHARED = text(2 * BLOCK_TOKENS, 1)
RED, BLUE = [*SHARED, *text(200, 2)], [*SHARED, *text(150, 3)]
SHORTENED = [*SHARED, *text(40, 4)]


@simulated(seeds=2)
@pytest.mark.parametrize(("owner", "session"), [("alice", "red"), ("alice", None), ("bob", "red")])
async def test_a_session_that_was_shortened_leaves_its_neighbour_where_it_is(owner: str, session: str | None) -> None:
    """Without its name, or under another API key, it displaces the sequence that has lain idle for longer."""
    async with open_kv_simulation(slots=2, ram=0) as sim:
        await sim.client(ask("blue", BLUE, owner="alice", session="blue"))
        await sim.client(ask("red", RED, owner="alice", session="red"))
        await sim.client(ask("short", SHORTENED, owner=owner, session=session))
        again = await sim.client(ask("again", [*BLUE, 7], owner="alice", session="blue"))
        kept = (owner, session) == ("alice", "red")
        assert (again.finished().cached_tokens >= len(BLUE)) is kept
