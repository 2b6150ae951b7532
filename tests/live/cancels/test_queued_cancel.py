"""A queued request that hangs up leaves the active one alone (seed 2), on a real server."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from tests.live.http_client import Http1, completion, prompt
from tests.live.server import CHAT, stage, wait_for

if TYPE_CHECKING:
    from tests.live.server import Json, Server


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
