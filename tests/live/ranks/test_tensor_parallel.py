"""Real servers of two ranks: the tokens of one, a hang-up within three layers, and no rank without the other."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.live.fork_server import ForkedServer
from tests.live.http_client import Http1, completion, prompt
from tests.live.ranks.processes import MOST_LAYERS, TWO, has_ended, ranks_of
from tests.live.server import Gone, Server, wait_for

TOKENS = 24
ASKED = [
    completion(prompt(70, seed=seed), TOKENS) for seed in (1, 2, 1)
]  # the third finds the first one's KV in a tier


def answers(server: Server) -> list[list[int]]:
    """Return the tokens of each in turn."""
    said = []
    for request in ASKED:
        with Http1(server, request) as client:
            said.append(client.read_all())
    return said


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedServer]:
    flags = ("--speculate", "off", "--slots", "1")
    with ForkedServer(tmp_path_factory.mktemp("two"), *TWO, *flags) as server:
        yield server


def test_two_ranks_say_what_one_says(server: Server, tmp_path: Path) -> None:
    with ForkedServer(tmp_path, "--speculate", "off", "--slots", "1") as alone:
        expected = answers(alone)
    assert answers(server) == expected
    with ForkedServer(tmp_path, *TWO, "--speculate", "mtp", "--slots", "1") as drafting:
        assert answers(drafting) == expected
        drafting.signal(signal.SIGTERM)
        assert drafting.wait_exit() == 0


def test_a_hang_up_in_a_prompt_stops_it_on_both_ranks(server: Server) -> None:
    expected = answers(server)
    for seed in range(3):
        with Http1(server, completion(prompt(3800, seed=seed), TOKENS)):
            wait_for(lambda: any(one["states"] != ["queued"] for one in server.requests().values()), "the prompt")
        wait_for(lambda: not server.requests(), "the request to end")
    receipts = server.get("/v1/receipts")["data"]
    assert [receipt["reason"] for receipt in receipts] == ["client_disconnect"] * 3
    assert all(receipt["layers_after_cancel"] <= MOST_LAYERS for receipt in receipts)
    assert answers(server) == expected


def test_a_rank_that_is_killed_ends_the_server_with_an_error(tmp_path: Path) -> None:
    """The client is told so, unless the step under way never ends: then the process ends without it, and says so."""
    with ForkedServer(tmp_path, *TWO, "--speculate", "off") as server:
        with Http1(server, completion(prompt(20), 4000)) as running:
            wait_for(lambda: server.get("/v1/statistics")["manager"]["steps"] > 3, "tokens")
            (rank,) = ranks_of(server)
            rank.kill()
            with suppress(Gone):
                running.read_all()
        assert server.wait_exit() == 1
        assert "rank 1 of 2 has ended with status -9" in server.log()
        is_stuck = "the step under way does not end, and the process ends without it" in server.log()
        assert is_stuck or [error["code"] for error in running.errors] == ["device_lost"]


def test_no_rank_outlives_rank_0(tmp_path: Path) -> None:
    with ForkedServer(tmp_path, *TWO, "--speculate", "off") as server:
        server.wait_ready()
        (rank,) = ranks_of(server)
        server.signal(signal.SIGKILL)
        wait_for(lambda: has_ended(rank), "the other rank to end")


def test_a_model_that_cannot_be_divided_is_refused_by_name(tmp_path: Path) -> None:
    with ForkedServer(tmp_path, "--tensor-parallel", "3") as server:
        assert server.wait_exit() == 1
        assert "--tensor-parallel 3: the attention heads of Qwen3ForCausalLM, 4, cannot be divided by 3" in server.log()
