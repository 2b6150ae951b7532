"""The first two of the failures that cede exists to make impossible, on a real server over real sockets.

1. A prompt is read to its end after its client has gone, and the retry begins from nothing.
2. The cancel of a queued request ends the active decode of another client.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from tests.live.server import CHAT, Http1, completion, prompt, stage, wait_for

if TYPE_CHECKING:
    from tests.live.server import Json, Server

CHUNK = 64  # tokens, as the fixture `one_slot` says
LONG = 3500


# --- seed 1 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
def test_a_hang_up_stops_the_reading_of_a_prompt_and_the_retry_goes_on_from_there(
    one_slot: Server, stream: bool
) -> None:
    ids = prompt(LONG, seed=10 + stream)
    client = Http1(one_slot, completion(ids, 1, stream=stream))
    (request_id,) = wait_for(one_slot.requests, "the request")
    one_slot.wait_committed(request_id, 4 * CHUNK)
    client.close()

    (receipt,) = one_slot.wait_ended(request_id)
    kept = receipt["kept_tokens"]
    assert receipt["reason"] == "client_disconnect"
    assert stage(receipt["phase"]) == "prefill"
    assert receipt["layers_after_cancel"] <= 1
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


# --- seed 2 ---------------------------------------------------------------------------------------------------------


def chat(content: str, max_tokens: int, **fields: Any) -> Json:  # noqa: ANN401
    message = {"role": "user", "content": content}
    return {"messages": [message], "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True} | fields


def test_a_queued_request_that_hangs_up_leaves_the_active_one_alone(one_slot: Server) -> None:
    """The scenario of the report: A has the only slot, B waits behind it and is closed, in each phase of A's.

    Each of these phases takes many times as long as B's visit.
    """
    text = "for name in names: print(name) " * 390  # 3500 tokens
    active = Http1(one_slot, chat(text, 150), CHAT)
    (active_id,) = wait_for(one_slot.requests, "the active request")
    for phase in ("prefill", "decode"):
        one_slot.wait_state(active_id, phase)
        queued = Http1(one_slot, chat("ping", 8), CHAT)
        (queued_id,) = wait_for(lambda: one_slot.requests().keys() - {active_id}, "the queued request")
        assert one_slot.states(queued_id) == ["queued"]
        queued.half_close()
        queued.close()
        (receipt,) = one_slot.wait_ended(queued_id)
        assert (receipt["reason"], stage(receipt["phase"])) == ("client_disconnect", "queued")
        assert one_slot.states(active_id) == [phase]
    with active:
        status, _, answer = active.answer()
    assert status == 200
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 150
    assert one_slot.receipts(active_id) == []


def test_two_hundred_queued_requests_are_cancelled_around_one_decode(one_slot: Server) -> None:
    ids, draw = prompt(40, seed=30), random.Random(30)
    with Http1(one_slot, completion(ids, 4000)) as active:
        active.read_tokens(1)
        gone = _come_and_go(one_slot, 200, draw)
        wait_for(lambda: list(one_slot.requests()) == [active.id], "the others to be gone")
        tokens = active.read_tokens(len(active.tokens) + 10)[:]
        assert one_slot.states(active.id) == ["decode"]
    receipts = {receipt["request_id"]: receipt for receipt in one_slot.get("/v1/receipts?limit=1024")["data"]}
    for request_id in gone:
        receipt = receipts[request_id]
        assert (receipt["reason"], stage(receipt["phase"])) == ("client_disconnect", "queued")
        assert receipt["computed_tokens"] == receipt["kept_tokens"] == receipt["wasted_tokens"] == 0
        assert receipt["slot_freed_at"] is None
    one_slot.wait_idle()
    with Http1(one_slot, completion(ids, len(tokens), cache_prompt=False)) as alone:
        assert alone.read_all() == tokens


def _come_and_go(server: Server, count: int, draw: random.Random) -> list[str]:
    """`count` requests that come and leave in any order and by any way; their ids."""
    ways = [Http1.close, Http1.reset, Http1.half_close]
    waiting: list[Http1] = []
    left: list[Http1] = []
    while len(left) < count:
        if len(waiting) + len(left) < count and draw.random() < 0.6:
            waiting.append(Http1(server, completion(prompt(draw.randrange(1, 900), seed=draw.randrange(99)), 50)))
        elif waiting:
            client = waiting.pop(draw.randrange(len(waiting)))
            assert client.id  # its head: it has been admitted
            draw.choice(ways)(client)
            left.append(client)
    for client in left:
        client.close()
    return [client.id for client in left]
