"""One pool of KV for all: sequences share its pages, and nobody's tokens change."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from runtime.kv.pages import PAGE_TOKENS
from tests.live.http_client import prompt
from tests.live.kv.servers import Starter, ask, plain, tokens
from tests.live.server import COMPLETIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.live.server import Json, Server

    Expected = Callable[[Json, str], list[int]]

CLIENTS = 4


def pool_of(server: Server) -> Json:
    """Return what the server says of its pool."""
    pool: Json = server.get("/v1/statistics")["manager"]["pool"]
    return pool


def test_clients_with_one_prefix_have_its_pages_once_and_say_what_they_say_alone(
    start: Starter, expected: Expected
) -> None:
    """In a pool that has room for no two of them apart, of 7 KiB a position with the drafter's KV and states."""
    positions = 15 * PAGE_TOKENS
    server = start(
        "--slots", str(CLIENTS), "--context", "768", "--kv-ram", "64MiB", "--kv-memory", f"{positions * 7}KiB"
    )
    assert pool_of(server)["positions"] == positions
    prefix = prompt(8 * PAGE_TOKENS + 10, seed=200)
    bodies = [plain([*prefix, 40 + number], 60) for number in range(CLIENTS)]
    said = [expected(body, COMPLETIONS) for body in bodies]
    with ThreadPoolExecutor(CLIENTS) as threads:
        assert [tokens(answer) for answer in threads.map(lambda body: ask(server, body), bodies)] == said
    pool = pool_of(server)
    assert pool["shared_tokens"] >= (CLIENTS - 1) * 8 * PAGE_TOKENS
    assert (pool["promised"], pool["held"]) == (0, 0)
    assert pool["free"] + pool["resident"] == positions
