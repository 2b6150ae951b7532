"""A cancel in the middle of drafting costs the neighbours nothing (seed 3), on a real server over real sockets.

A client hangs up while tokens are being drafted for it: its slot was never released, and the server spun for hours.
Here it is free within one layer of the step in flight, whatever that step was.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.live.fork_server import ForkedServer
from tests.live.http_client import Http1, completion
from tests.live.server import most_layers_after_cancel, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.live.server import Json, Server

DRAFTS = 2  # few, so that drafting and verifying take about as long
CODE = "import os\n\n\ndef main(argv):\n    for name in sorted(os.listdir(argv[1])):\n        print("
HANG_UPS: list[Callable[[Http1], None]] = [Http1.close, Http1.reset, Http1.half_close]


@pytest.fixture(scope="module", params=["mtp", "draft", "ngram"])
def two_slots(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of two slots that drafts all the time, in float32, so that tokens can be compared."""
    flags = ("--slots", "2", "--queue", "16", "--dtype", "float32")
    drafts = ("--speculate", request.param, "--draft-tokens", str(DRAFTS))
    with ForkedServer(tmp_path_factory.mktemp("server"), *flags, *drafts) as server:
        yield server


def ask(server: Server, seed: int, tokens: int, **fields: Any) -> Http1:  # noqa: ANN401
    """A client with a prompt of its own that the model goes on from at length."""
    return Http1(server, completion(f"# {seed}\n{CODE}", tokens, **fields))


def alone(server: Server, seed: int, tokens: int) -> list[int]:
    """Return what the model says to it without drafts, cached KV or company."""
    server.wait_idle()
    with ask(server, seed, tokens, speculate=False, cache_prompt=False) as client:
        return client.read_all()


def _leave(server: Server, seed: int, draw: random.Random, during: str | None = None) -> Json:
    """Come, read some tokens, hang up without a word, as soon as `during` is seen if it is given; the receipt."""
    with ask(server, seed, 3000) as client:
        client.read_tokens(draw.randrange(1, 20))
        if during is not None:  # else it would always leave right after a token has come
            wait_for(lambda: server.requests()[client.id]["states"] == [during], f"{client.id} to be in {during}")
        draw.choice(HANG_UPS)(client)
        (receipt,) = server.wait_ended(client.id)
    return receipt


def test_a_hang_up_in_any_phase_frees_the_slot_and_nothing_more_is_computed(two_slots: Server) -> None:
    draw = random.Random(3)
    seen: Counter[str] = Counter()
    proposer = two_slots.get("/v1/statistics")["speculation"]["proposer"]
    phases = ["verify"] if proposer == "ngram" else ["draft", "verify"]
    with ask(two_slots, 1, 3500) as neighbour:
        for attempt in range(16):
            neighbour.read_tokens(len(neighbour.tokens) + 1)
            if two_slots.requests()[neighbour.id]["completion_tokens"] > 2800:
                break  # this process was too slow: the neighbour is not to end meanwhile
            receipt = _leave(two_slots, 100 + attempt, draw, during=draw.choice(phases))
            seen[receipt["phase"]] += 1
            assert receipt["reason"] == "client_disconnect"
            assert receipt["layers_after_cancel"] <= most_layers_after_cancel()
            assert receipt["computed_tokens"] == receipt["kept_tokens"] + receipt["wasted_tokens"]
            assert receipt["accepted_tokens"] <= receipt["drafted_tokens"]
            (idle,) = [slot for slot in two_slots.slots() if slot["request_id"] is None]
            # What a step for it had computed after the hang-up would be here.
            assert idle["resident_tokens"] == receipt["cached_tokens"] + receipt["kept_tokens"]
            assert idle["draft_tokens"] <= idle["resident_tokens"], "the drafter's KV was not trimmed"
        assert two_slots.states(neighbour.id) != ["done"]
        tokens = neighbour.tokens[:]
    two_slots.wait_idle()
    assert tokens == alone(two_slots, 1, len(tokens))
    assert min(seen[phase] for phase in phases) > 0, seen
    assert two_slots.get("/v1/statistics")["speculation"]["accepted_tokens"] > 0


def test_nothing_runs_once_nobody_is_there(two_slots: Server) -> None:
    _leave(two_slots, 7, random.Random(5))
    two_slots.wait_idle()
    wait_for(lambda: not two_slots.get("/v1/statistics")["manager"]["cache"]["unsaved_blocks"], "the KV to be kept")
    before = two_slots.get("/v1/statistics")
    after = two_slots.get("/v1/statistics")
    for part in ("manager", "speculation"):
        assert before[part] == after[part], "a step has run for nobody"


def test_who_comes_back_at_once_is_served(two_slots: Server) -> None:
    expected = alone(two_slots, 50, 40)
    for attempt in range(8):
        with ask(two_slots, 50, 3000) as client:
            client.read_tokens(1 + attempt)
        with ask(two_slots, 50, 40) as retry:
            assert retry.read_all() == expected
    two_slots.wait_idle()
