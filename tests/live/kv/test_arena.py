"""One arena of KV for all: what a few long sequences do not need many short ones have, and nobody's tokens change."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tests.live.http_client import Http1, completion, prompt
from tests.live.kv.servers import Starter, ask, plain, tokens
from tests.live.server import COMPLETIONS, wait_for
from tests.models.checkpoints import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.live.server import Json, Server

    Expected = Callable[[Json, str], list[int]]

FOUR_OF_2K = 4 * 2048
POSITION = 2 * 2 * 2 * 16 * 4  # bytes of a position: layers, keys and values, KV heads, their size, float32
STREAMS = 8
EVENTS = 25


def arena_of(server: Server) -> Json:
    """Return what the server says of its arena."""
    arena: Json = server.get("/v1/statistics")["manager"]["arena"]
    return arena


def small(length: int, seed: int) -> list[int]:
    """A prompt of bytes' ids, for a model that has no others."""
    return [number % 250 for number in prompt(length, seed)]


def test_the_capacity_of_four_sequences_of_2k_holds_one_of_6k_and_seven_more(tmp_path: Path, start: Starter) -> None:
    FAMILIES["llama"](tmp_path, num_hidden_layers=2, max_position_embeddings=8192)
    flags = ("--model", str(tmp_path), "--slots", "8", "--chunk-tokens", "512", "--kv-ram", "0", "--hang-timeout", "0")
    server = start(*flags, "--kv-memory", str(FOUR_OF_2K * POSITION))
    assert arena_of(server)["positions"] == FOUR_OF_2K

    with ExitStack() as stack:
        clients = [
            stack.enter_context(Http1(server, completion(small(32, seed), 2048 - 32, cache_prompt=False)))
            for seed in range(5)
        ]
        wait_for(lambda: arena_of(server)["promised"] == FOUR_OF_2K, "four sequences of 2048")
        waiting = [client for client in clients if server.states(client.id) == ["queued"]]
        assert len(waiting) == 1, "there is no room for a fifth, whichever came last"
    server.wait_idle()

    bodies = [completion(small(6_016, 10), 128, cache_prompt=False)]
    bodies += [completion(small(56, seed), 200, cache_prompt=False) for seed in range(11, 18)]
    with ExitStack() as stack:
        with server.held():  # or some may have ended before all are there
            clients = [stack.enter_context(Http1(server, body)) for body in bodies]
            wait_for(lambda: server.get("/v1/statistics")["manager"]["leased"] == 8, "all eight to run together")
            assert arena_of(server)["promised"] == 6_144 + 7 * 256 <= FOUR_OF_2K
        said = [client.read_all() for client in clients]
    assert [len(one) for one in said] == [128, *[200] * 7]
    server.wait_idle()
    for body, together in zip(bodies[:3], said, strict=False):
        with Http1(server, body) as alone:
            assert alone.read_all() == together


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
