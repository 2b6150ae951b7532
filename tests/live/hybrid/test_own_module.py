"""A hybrid's own module drafts for it: a hang-up in the middle of that costs nobody a token (seed 3)."""

from __future__ import annotations

import random
from collections import Counter
from itertools import count, cycle
from typing import TYPE_CHECKING

import pytest

from tests.live.families.subject import CONTEXT, Subject, serving
from tests.live.http_client import Http1, completion
from tests.live.server import most_layers_after_cancel
from tests.models.mtp_checkpoints import write_agreeing_qwen3_5
from tests.models.step_driver import random_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.live.fork_server import ForkedServer
    from tests.live.server import Json

HANG_UPS = [Http1.close, Http1.reset, Http1.half_close]
DRAFTS = ("--speculate", "mtp", "--draft-tokens", "2")


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    with serving(write_agreeing_qwen3_5, tmp_path_factory.mktemp("hybrid"), "--slots", "2", *DRAFTS) as served:
        yield served


def leave(server: ForkedServer, client: Http1, draw: random.Random, phase: str) -> Json:
    """Hang up while a token is drafted, or while drafts are verified; the receipt, which may be of the next phase."""
    while True:
        client.read_tokens(len(client.tokens) + draw.randrange(1, 9))
        with server.held():
            if is_there := server.requests()[client.id]["states"] == [phase]:
                draw.choice(HANG_UPS)(client)
                server.slots()
        if is_there:
            (receipt,) = server.wait_ended(client.id)
            return receipt


def test_a_hang_up_while_tokens_are_drafted_or_verified_costs_nobody_a_token(subject: Subject) -> None:
    server, draw = subject.server, random.Random(3)
    phases, seen = cycle(["draft", "verify"]), Counter[str]()
    alone = random_tokens(40, below=256, seed=1)
    with Http1(server, completion(alone, CONTEXT - 100)) as neighbour:
        for attempt in count():
            if min(seen["draft"], seen["verify"]) >= 2:
                break
            neighbour.read_tokens(len(neighbour.tokens) + 1)
            ids, phase = random_tokens(70 + attempt, below=256, seed=10 + attempt), next(phases)
            with Http1(server, completion(ids, 2000)) as client:
                receipt = leave(server, client, draw, phase)
                said = client.tokens
            assert receipt["reason"] == "client_disconnect"
            seen[receipt["phase"]] += 1
            assert receipt["layers_after_cancel"] <= most_layers_after_cancel()
            assert receipt["computed_tokens"] == receipt["kept_tokens"] + receipt["wasted_tokens"]
            subject.check(ids, said)
            output, timings = subject.complete([*ids, *said])
            assert timings["cache_n"] >= len(ids), "what was committed is read again"
            again, _ = subject.complete(ids)
            assert again == [*said, *output][: len(again)]
        spoken = neighbour.tokens
    subject.check(alone, spoken)
    speculation = server.get("/v1/statistics")["speculation"]
    assert speculation["proposer"] == "mtp"
    assert 0 < speculation["accepted_tokens"] < speculation["drafted_tokens"]
