"""Real servers of two ranks: the tokens of one, a hang-up within three layers, and no rank without the other."""

from __future__ import annotations

import signal
from contextlib import suppress

import pytest

from tests.live.http_client import Http1, completion, prompt
from tests.live.ranks.processes import MOST_LAYERS, TWO, has_ended, ranks_of
from tests.live.server import Gone, Server, wait_for

TOKENS = 24


@pytest.mark.parametrize("speculate", ["off", "mtp"])
def test_two_ranks_say_what_one_says(speculate: str) -> None:
    flags = ("--speculate", speculate, "--slots", "1")
    asked = [completion(prompt(70, seed=seed), TOKENS) for seed in (1, 2, 1)]
    said = []
    for ranks in ((), TWO):
        with Server(*flags, *ranks) as server:
            answers = []
            for request in asked:  # the third finds the first one's KV in a tier
                with Http1(server, request) as client:
                    answers.append(client.read_all())
            said.append(answers)
            server.process.send_signal(signal.SIGTERM)
            assert server.wait_exit() == 0
    assert said[0] == said[1]


def test_a_hang_up_in_a_prompt_stops_it_on_both_ranks() -> None:
    with Server(*TWO, "--speculate", "off") as server:
        with Http1(server, completion(prompt(20), TOKENS)) as before:
            expected = before.read_all()
        for seed in range(3):
            with Http1(server, completion(prompt(3800, seed=seed), TOKENS)):
                wait_for(lambda: any(one["states"] != ["queued"] for one in server.requests().values()), "the prompt")
            wait_for(lambda: not server.requests(), "the request to end")
        receipts = server.get("/v1/receipts")["data"]
        assert [receipt["reason"] for receipt in receipts] == ["client_disconnect"] * 3
        assert all(receipt["layers_after_cancel"] <= MOST_LAYERS for receipt in receipts)
        with Http1(server, completion(prompt(20), TOKENS)) as after:
            assert after.read_all() == expected


def test_a_rank_that_is_killed_ends_the_server_with_an_error() -> None:
    """The client is told so, unless the step under way never ends: then the process ends without it, and says so."""
    with Server(*TWO, "--speculate", "off") as server:
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


def test_no_rank_outlives_rank_0() -> None:
    with Server(*TWO, "--speculate", "off") as server:
        server.wait_ready()
        (rank,) = ranks_of(server)
        server.process.kill()
        wait_for(lambda: has_ended(rank), "the other rank to end")


def test_a_model_that_cannot_be_divided_is_refused_by_name() -> None:
    with Server("--tensor-parallel", "3") as server:
        assert server.wait_exit() == 1
        assert "--tensor-parallel 3: the attention heads of Qwen3ForCausalLM, 4, cannot be divided by 3" in server.log()
