"""A queued request that hangs up leaves the active one alone (seed 2), and so do many that end together."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.live.feed import asked, frames
from tests.live.fork_server import ForkedServer
from tests.live.http_client import Http1, completion, prompt
from tests.live.server import CHAT, Json, Server, most_layers_after_cancel, stage, wait_for


def chat(content: str, max_tokens: int, **fields: Any) -> Json:  # noqa: ANN401
    message = {"role": "user", "content": content}
    return {"messages": [message], "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True} | fields


@pytest.mark.parametrize(("phase", "repeats", "tokens"), [("prefill", 390, 8), ("decode", 1, 1500)])
def test_a_queued_request_that_hangs_up_leaves_the_active_one_alone(
    one_slot: ForkedServer, phase: str, repeats: int, tokens: int
) -> None:
    """The scenario of the report: A has the only slot, B waits behind it and is closed, in each phase of A's."""
    text = "for name in names: print(name) " * repeats  # nine tokens each
    with Http1(one_slot, chat(text, tokens), CHAT) as active:
        (active_id,) = wait_for(one_slot.requests, "the active request")
        one_slot.wait_state(active_id, phase)
        with one_slot.held():  # it has all the time to stay in this phase
            stays = one_slot.states(active_id)
            queued = Http1(one_slot, chat("ping", 8), CHAT)
            (queued_id,) = wait_for(lambda: one_slot.requests().keys() - {active_id}, "the queued request")
            assert one_slot.states(queued_id) == ["queued"]
            queued.half_close()
            queued.close()
            (receipt,) = one_slot.wait_ended(queued_id)
            assert (receipt["reason"], stage(receipt["phase"])) == ("client_disconnect", "queued")
            assert one_slot.states(active_id) == stays
        status, _, answer = active.answer()
    assert status == 200
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == tokens
    assert one_slot.receipts(active_id) == []


def test_two_hundred_queued_requests_are_cancelled_around_one_decode(one_slot: ForkedServer) -> None:
    ids, draw = prompt(40, seed=30), random.Random(30)
    with Http1(one_slot, completion(ids, 4000)) as active:
        active.read_tokens(1)
        with one_slot.held():  # so that it stays active
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


# --- those of one group, and of one series ---------------------------------------------------------------------------

TREE = ["agent", *(f"agent/{i}" for i in range(3)), *(f"agent/{i}/{j}" for i in range(3) for j in range(12))]
"""A root, three below it, and twelve below each of those: forty."""


def test_a_tree_of_forty_ends_with_one_call_and_a_neighbour_notices_nothing(
    four_slots: ForkedServer, neighbour: Http1
) -> None:
    before = len(neighbour.read_tokens(3))
    with four_slots.held():  # or the neighbour might end while they come
        tree = [
            Http1(four_slots, completion(prompt(60, seed=n), 4000, cede={"group": name})) for n, name in enumerate(TREE)
        ]
        wait_for(lambda: len(four_slots.requests()) == 41, "the tree")
    ids = four_slots.requests().keys() - {neighbour.id}
    wait_for(lambda: all(slot["state"] != "idle" for slot in four_slots.slots()), "full slots")
    assert len(four_slots.get("/v1/groups")["data"]) == 40

    with asked(four_slots, "GET", "/v1/events") as feed:
        told = frames(feed)
        next(told)  # how all stands
        status, answer = four_slots.ask("DELETE", "/v1/groups/agent")
        assert (status, answer["group"], set(answer["cancelled"])) == (200, "agent", ids)
        events: list[Json] = []
        while sum(event["type"] == "receipt" for event in events) < len(TREE):
            _, frame = next(told)
            assert not frame.get("lost")
            events += frame["events"]
    wait_for(lambda: list(four_slots.requests()) == [neighbour.id], "the end of the tree")
    receipts = [receipt for request_id in ids for receipt in four_slots.receipts(request_id)]
    assert len(receipts) == 40
    assert {receipt["reason"] for receipt in receipts} == {"group"}
    assert {receipt["group"] for receipt in receipts} == set(TREE)
    assert sum(receipt["slot_freed_at"] is not None for receipt in receipts) == 3, "one of four is the neighbour's"
    assert all(receipt["layers_after_cancel"] <= most_layers_after_cancel() for receipt in receipts)
    cancelled = [place for place, event in enumerate(events) if event["type"] == "cancelled"]
    freed = [place for place, event in enumerate(events) if event["type"] == "receipt" and event["slot_freed_at"]]
    meanwhile = events[cancelled[0] : freed[-1]]
    begun = [event for event in meanwhile if event["type"] == "step_begins"]
    assert len(begun) <= 1, "all slots are free when the step ends that ran"
    for step in begun:  # the device had begun it by itself, on a result that was not yet heard of
        assert ids & {part["request_id"] for part in step["parts"]}, "planned after the cancels"
    assert sum(event["type"] == "step_ended" for event in meanwhile) <= 1 + len(begun)
    assert four_slots.get("/v1/groups") == {"data": []}
    for client in tree:
        client.read_all()  # an end, which says why
        client.close()
    assert len(neighbour.read_tokens(before + 5)) >= before + 5


def test_of_a_series_of_keystrokes_the_last_is_answered(four_slots: Server) -> None:
    ids, cede = prompt(120, seed=90), {"supersede": "line"}
    clients = []
    for typed in range(80, 100):
        clients.append(Http1(four_slots, completion(ids[:typed], 12, cede=cede)))
        wait_for(lambda: clients[-1].id, "its head")
        busy = [slot for slot in four_slots.slots() if slot["state"] != "idle"]
        assert len(busy) <= 1
    assert len(clients[-1].read_all()) == 12
    for client in clients[:-1]:
        for receipt in four_slots.wait_ended(client.id):
            assert receipt["reason"] == "superseded"
        client.close()
    clients[-1].close()
    assert four_slots.receipts(clients[-1].id) == []
