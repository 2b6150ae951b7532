"""A hang-up stops the reading of a prompt, and the retry goes on from there (seed 1), on a real server."""

from __future__ import annotations

from itertools import count

import pytest

from tests.live.fork_server import ForkedServer
from tests.live.http_client import Http1, completion, prompt
from tests.live.server import Server, most_layers_after_cancel, stage, wait_for

CHUNK = 64  # tokens, as the fixture `one_slot` says
LONG = 3500


@pytest.mark.parametrize("stream", [True, False])
def test_a_hang_up_stops_the_reading_of_a_prompt_and_the_retry_goes_on_from_there(
    one_slot: ForkedServer, stream: bool
) -> None:
    for seed in count(1000 + stream, step=2):
        ids = prompt(LONG, seed)
        client = Http1(one_slot, completion(ids, 1, stream=stream))
        (request_id,) = wait_for(one_slot.requests, "the request")
        one_slot.wait_committed(request_id, 4 * CHUNK)
        with one_slot.held():
            is_read = 0 < one_slot.committed(request_id) < LONG // 2
            client.close()
            one_slot.slots()
        receipts = one_slot.wait_ended(request_id)
        if is_read:  # else this process was too slow
            break

    (receipt,) = receipts
    kept = receipt["kept_tokens"]
    assert receipt["reason"] == "client_disconnect"
    assert stage(receipt["phase"]) == "prefill"
    assert receipt["layers_after_cancel"] <= most_layers_after_cancel()
    assert receipt["cached_tokens"] == 0
    assert 4 * CHUNK <= kept < LONG
    assert kept % CHUNK == 0
    assert receipt["wasted_tokens"] in (0, CHUNK), "nothing but the chunk in flight may be lost"
    (slot,) = one_slot.slots()
    assert (slot["state"], slot["resident_tokens"]) == ("idle", kept), "a chunk has run after the hang-up"

    with Http1(one_slot, completion([*ids, 300], 1, stream=False)) as retry:
        _, _, answer = retry.answer()
    assert answer["timings"]["cache_n"] == kept
    assert answer["timings"]["prompt_n"] == LONG + 1 - kept


def test_a_client_that_always_hangs_up_early_gets_there_in_the_end(one_slot: Server) -> None:
    """Its patience is a few chunks each time: enough to see that it gets further, never enough for the prompt."""
    ids, patience = prompt(LONG, seed=20), 4 * CHUNK
    whole = -(-LONG // CHUNK)  # chunks
    reached = 0
    for _ in range(whole):
        with Http1(one_slot, completion(ids, 1)) as client:
            one_slot.wait_committed(client.id, min(reached + patience, LONG))
        receipts = one_slot.wait_ended(client.id)
        if not receipts:
            break
        assert receipts[0]["cached_tokens"] == reached, "something was lost between two attempts"
        assert receipts[0]["kept_tokens"] >= CHUNK
        reached += receipts[0]["kept_tokens"]
    with Http1(one_slot, completion(ids, 1, stream=False)) as client:
        assert client.answer()[2]["timings"]["cache_n"] >= LONG - 1 - CHUNK
