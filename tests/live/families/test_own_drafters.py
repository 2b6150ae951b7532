"""Drafters of a target's own, a hybrid's module and what reads Gemma 4's KV: hang-ups cost nobody a token (seed 3)."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.live.families.subject import CONTEXT, Subject, serving
from tests.live.http_client import Http1, completion
from tests.live.server import most_layers_after_cancel, stage
from tests.models.assistants import write_agreeing_gemma4
from tests.models.mtp_checkpoints import write_agreeing_qwen3_5
from tests.models.step_driver import random_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator


HANG_UPS = [Http1.close, Http1.reset, Http1.half_close]
WRITTEN = {"mtp": write_agreeing_qwen3_5, "assistant": write_agreeing_gemma4}


@pytest.fixture(scope="module", params=WRITTEN)
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    folder, proposer = tmp_path_factory.mktemp("drafts"), request.param
    model = ("--draft-model", str(folder / "assistant")) if proposer == "assistant" else ()
    flags = "--slots", "2", "--speculate", proposer, "--draft-tokens", "2", *model
    with serving(WRITTEN[proposer], folder, *flags) as served:
        yield served


def test_a_hang_up_while_tokens_are_drafted_or_verified_costs_nobody_a_token(subject: Subject) -> None:
    """In which phase each was, its receipt says; the scenarios of states try all cuts."""
    server, draw = subject.server, random.Random(3)
    alone = random_tokens(40, below=256, seed=1)
    with Http1(server, completion(alone, CONTEXT - 100)) as neighbour:
        for attempt in range(6):
            neighbour.read_tokens(len(neighbour.tokens) + 1)
            ids = random_tokens(70 + attempt, below=256, seed=10 + attempt)
            with Http1(server, completion(ids, 2000)) as client:
                said = client.read_tokens(draw.randrange(1, 9))
                HANG_UPS[attempt % len(HANG_UPS)](client)
                (receipt,) = server.wait_ended(client.id)
            assert (receipt["reason"], stage(receipt["phase"])) == ("client_disconnect", "decode")
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
    assert speculation["proposer"] in WRITTEN
    assert 0 < speculation["accepted_tokens"] < speculation["drafted_tokens"]
