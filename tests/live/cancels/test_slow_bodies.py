"""Clients of each wire format that send their body, or take the answer, in crumbs, and leave in the middle of it.

Who has not sent a whole body has nothing: no slot, no place in the queue, no receipt.  Who leaves in the middle of the
answer has a receipt where the answer was still made, and none where it was only on its way.
"""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass

import pytest

from tests.live.http_client import Http1
from tests.live.server import CHAT, COMPLETIONS, PATIENCE, Json, Server, most_layers_after_cancel, stage, wait_for

CRUMB = 16  # bytes of a read, and of a write
FEW, MANY = 12, 4000  # tokens: of an answer that is to be read, and more than one that is left can come to
OF_ONE = 4  # tasks of a connection, at least: it reads, writes, handles what it read, and serves the request
SAID = [{"role": "user", "content": "Write a function."}]
ENDLESS = {"type": "string", "minLength": 3 * MANY}


@dataclass(frozen=True, slots=True)
class Wire:
    """One wire format.

    Attributes:
        path: of its endpoint.
        prompt: the fields of a body that hold it, and what keeps its answer from ending by itself.
        limit: the field for the number of tokens.
        delta: what stands once in each piece of a stream.
    """

    path: str
    prompt: Json
    limit: str
    delta: bytes

    def body(self, tokens: int, *, stream: bool) -> Json:
        """Return a body, which says first whether a stream is wanted."""
        sampled = {self.limit: tokens, "temperature": 0}
        limit: Json = {"options": sampled} if self.limit == "num_predict" else sampled
        return {"stream": stream, "model": "any", **limit, **self.prompt}


WIRES = {
    "chat completions": Wire(CHAT, {"ignore_eos": True, "messages": SAID}, "max_tokens", b'"delta":{"content":"'),
    "completions": Wire(COMPLETIONS, {"ignore_eos": True, "prompt": "import os"}, "max_tokens", b'"text":"'),
    "responses": Wire(
        "/v1/responses",
        {"ignore_eos": True, "input": SAID},
        "max_output_tokens",
        b'"type":"response.output_text.delta"',
    ),
    "messages": Wire("/v1/messages", {"ignore_eos": True, "messages": SAID}, "max_tokens", b'"type":"text_delta"'),
    "ollama chat": Wire("/api/chat", {"format": ENDLESS, "messages": SAID}, "num_predict", b'"done":false'),
    "ollama generate": Wire(
        "/api/generate", {"format": ENDLESS, "prompt": "import os"}, "num_predict", b'"done":false'
    ),
}

every_wire = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
both_ways = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


def newest(server: Server) -> Json | None:
    """Return the newest receipt; None if there is none."""
    found: list[Json] = server.get("/v1/receipts?limit=1")["data"]
    return found[0] if found else None


def tasks(server: Server) -> int:
    """Return how many tasks the server has."""
    count: int = server.get("/v1/statistics")["tasks"]
    return count


def tasks_at_rest(server: Server) -> int:
    """Return how many tasks it has at rest: who has just asked for something may be about to leave, and counts."""
    return min(tasks(server) for _ in range(20))


def send_in_crumbs(connection: socket.socket, wire: Wire, body: bytes, *, of: int) -> None:
    """Send a head that announces `of` bytes, and then a body, a crumb in each packet."""
    head = f"POST {wire.path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {of}\r\n\r\n"
    connection.sendall(head.encode())
    for start in range(0, len(body), CRUMB):
        connection.sendall(body[start : start + CRUMB])


def connected(server: Server) -> socket.socket:
    """Return a connection that sends each write in a packet of its own."""
    connection = socket.create_connection(server.address, PATIENCE)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


@every_wire
@both_ways
def test_a_body_that_breaks_off_takes_nothing(one_slot: Server, wire: Wire, stream: bool) -> None:
    body = json.dumps(wire.body(FEW, stream=stream)).encode()
    with connected(one_slot) as whole:
        send_in_crumbs(whole, wire, body, of=len(body))
        answer = b"".join(iter(lambda: whole.recv(2**16), b""))
    assert answer.startswith(b"HTTP/1.1 200"), "in crumbs it is as good as in one piece"
    one_slot.wait_idle()
    before, idle, at_rest = newest(one_slot), one_slot.get("/v1/statistics"), tasks_at_rest(one_slot)
    with connected(one_slot) as broken:
        send_in_crumbs(broken, wire, body[:-2], of=len(body))
        wait_for(lambda: tasks(one_slot) >= at_rest + OF_ONE, "the server to wait for the rest")
        assert one_slot.requests() == {}
        assert all(slot["state"] == "idle" for slot in one_slot.slots())
    wait_for(lambda: tasks(one_slot) < at_rest + OF_ONE, "the connection to end")
    assert newest(one_slot) == before, "what was not begun has no receipt"
    after = one_slot.get("/v1/statistics")["manager"]
    assert (after["rows"], after["steps"]) == (idle["manager"]["rows"], idle["manager"]["steps"])


@every_wire
@both_ways
def test_who_leaves_while_the_answer_is_made_has_a_receipt(one_slot: Server, wire: Wire, stream: bool) -> None:
    with Http1(one_slot, wire.body(MANY, stream=stream), wire.path, receive_buffer=4096) as client:
        (request_id,) = wait_for(one_slot.requests, "the request")
        if stream:
            got = b""
            while got.count(wire.delta) < FEW:
                crumb = client.socket.recv(CRUMB)
                assert crumb, got
                got += crumb
        else:
            one_slot.wait_committed(request_id, FEW)
            one_slot.wait_state(request_id, "decode")
    (receipt,) = one_slot.wait_ended(request_id)
    assert (receipt["reason"], stage(receipt["phase"])) == ("client_disconnect", "decode")
    assert receipt["computed_tokens"] == receipt["kept_tokens"] + receipt["wasted_tokens"]
    assert receipt["layers_after_cancel"] <= most_layers_after_cancel()
    assert receipt["detected_at"] <= receipt["slot_freed_at"]
    one_slot.wait_idle()


@every_wire
def test_who_leaves_while_a_whole_answer_is_sent_has_none(one_slot: Server, wire: Wire) -> None:
    with Http1(one_slot, wire.body(FEW, stream=False), wire.path, receive_buffer=4096) as client:
        got = b""
        while b"\r\n\r\n" not in got:
            got += client.socket.recv(CRUMB)
        assert got.startswith(b"HTTP/1.1 200")
        request_id = got.partition(b"x-request-id: ")[2].partition(b"\r\n")[0].decode()
    assert request_id
    assert one_slot.wait_ended(request_id) == [], "nothing was cancelled"
    wait_for(lambda: one_slot.get("/v1/statistics")["unread"]["readers"] == 0, "what is unread to be dropped")
    assert one_slot.get("/v1/statistics")["unread"]["bytes"] == 0
    one_slot.wait_idle()
