"""Whoever hangs up on a hybrid goes on from the last state that it had (seed 1), on a real server."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from tests.live.families.subject import CONTEXT, Subject, serving
from tests.live.http_client import Http1, completion
from tests.live.kv.servers import CHUNK
from tests.live.server import most_layers_after_cancel, stage, wait_for
from tests.models.checkpoints import FAMILIES
from tests.models.step_driver import random_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

LONG = 2500  # tokens of a prompt


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    with serving(FAMILIES["lfm2"], tmp_path_factory.mktemp("hybrid"), "--slots", "1") as served:
        yield served


def test_a_hang_up_stops_the_reading_of_a_prompt_and_the_retry_goes_on_from_there(subject: Subject) -> None:
    server = subject.server
    for seed in count():
        ids = random_tokens(LONG, below=256, seed=seed)
        client = Http1(server, completion(ids, 1))
        (request_id,) = wait_for(server.requests, "the request")
        server.wait_committed(request_id, 4 * CHUNK)
        with server.held():
            is_read = 0 < server.committed(request_id) < LONG // 2
            client.close()
            server.slots()
        receipts = server.wait_ended(request_id)
        if is_read:  # else this process was too slow
            break

    (receipt,) = receipts
    kept = receipt["kept_tokens"]
    assert (receipt["reason"], stage(receipt["phase"])) == ("client_disconnect", "prefill")
    assert receipt["layers_after_cancel"] <= most_layers_after_cancel()
    assert 4 * CHUNK <= kept < LONG
    assert receipt["wasted_tokens"] in (0, CHUNK), "nothing but the chunk in flight may be lost"
    (slot,) = server.slots()
    assert (slot["state"], slot["resident_tokens"]) == ("idle", kept), "a chunk has run after the hang-up"

    _, timings = subject.complete(ids)
    assert timings["cache_n"] == kept
    assert timings["prompt_n"] == LONG - kept


def test_a_hang_up_while_it_generates_keeps_the_prompt_and_changes_no_token(subject: Subject) -> None:
    server, ids = subject.server, random_tokens(300, below=256, seed=100)
    with Http1(server, completion(ids, CONTEXT - len(ids))) as client:
        said = client.read_tokens(20)[:20]
    (receipt,) = server.wait_ended(client.id)
    assert (receipt["reason"], stage(receipt["phase"])) == ("client_disconnect", "decode")
    assert receipt["layers_after_cancel"] <= most_layers_after_cancel()
    assert receipt["kept_tokens"] >= len(ids) + len(said) - 1
    subject.check(ids, said)

    output, timings = subject.complete([*ids, *said])
    assert timings["cache_n"] >= len(ids), "the prompt was read again"
    again, timings = subject.complete(ids)
    assert timings["cache_n"] >= len(ids) - CHUNK
    assert again == [*said, *output][: len(again)]
