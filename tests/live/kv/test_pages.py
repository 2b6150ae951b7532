"""One arena of KV for all: sequences grow and are moved in it, and nobody's tokens change."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.live.http_client import prompt
from tests.live.kv.servers import Starter, ask, plain, tokens
from tests.live.server import COMPLETIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.live.server import Json, Server

    Expected = Callable[[Json, str], list[int]]

STREAMS = 8
EVENTS = 25


def arena_of(server: Server) -> Json:
    """Return what the server says of its arena."""
    arena: Json = server.get("/v1/statistics")["manager"]["arena"]
    return arena


def test_streams_whose_sequences_grow_and_are_moved_say_what_they_say_alone(start: Starter, expected: Expected) -> None:
    """Until there were enough of these, under eight streams all the time."""
    positions = 8 * 192  # of 7 KiB each, the drafter's KV and states included
    server = start(
        "--slots", str(STREAMS), "--context", "768", "--kv-ram", "64MiB", "--kv-memory", f"{positions * 7}KiB"
    )
    assert arena_of(server)["positions"] == positions
    bodies = [plain(prompt(1 + 37 * n % 300, seed=200 + n), 30 + 53 * n % 150) for n in range(16)]
    wrong: list[int] = []

    def stream(number: int) -> None:
        for visit in range(1000):
            arena = arena_of(server)
            if arena["grown"] + arena["moves"] >= EVENTS:
                return
            place = (5 * number + visit) % len(bodies)
            if tokens(ask(server, bodies[place])) != expected(bodies[place], COMPLETIONS):
                wrong.append(place)

    for body in bodies:
        expected(body, COMPLETIONS)
    with ThreadPoolExecutor(STREAMS) as threads:
        for job in [threads.submit(stream, number) for number in range(STREAMS)]:
            job.result()
    assert not wrong
    arena = arena_of(server)
    assert arena["grown"] + arena["moves"] >= EVENTS
    assert arena["compactions"] > 0
    assert arena["promised"] == 0
