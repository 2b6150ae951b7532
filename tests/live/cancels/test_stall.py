"""Clients that do not read: they hold no slot, they are cut, and nobody waits for them.

What fills the socket's buffers within a few tokens is their log-probabilities.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import h11
import pytest

from tests.live.fork_server import ForkedServer
from tests.live.http_client import Http1, completion, prompt
from tests.live.server import Json, Server, most_layers_after_cancel, stage, wait_for
from web.process.limits import Limits

TOKENS = 100  # are more, with their log-probabilities, than the sockets' buffers hold
AFTER = TOKENS + 10  # a step that comes after theirs, and before the last of another's: there are no drafts
STALL_TIMEOUT = 3600  # seconds, which pass on the server's clock when a test says so


@contextmanager
def impatient(folder: Path, step: int) -> Iterator[ForkedServer]:
    """Cuts whoever takes nothing for a while, and that while is over in this step."""
    plan = folder / "plan.toml"
    plan.write_text(f'[[fault]]\nwhat = "clock-jump"\nstep = {step}\nseconds = {2 * STALL_TIMEOUT}\n', encoding="utf-8")
    flags = ("--slots", "2", "--speculate", "off", "--stall-timeout", str(STALL_TIMEOUT), "--hang-timeout", "0")
    with ForkedServer(folder, "--chaos", str(plan), *flags) as server:
        yield server


def bulky(seed: int, max_tokens: int) -> Json:
    return completion(prompt(20, seed=seed), max_tokens, logprobs=20)


class Trickle:
    """Reads a byte, but not before a quarter of a second has passed since the last."""

    def __init__(self, client: Http1) -> None:
        self._socket = client.socket
        self._next = time.monotonic()

    def read(self) -> None:
        """Read a byte, if it is time for one."""
        if time.monotonic() >= self._next:
            self._next += 0.25
            with suppress(ConnectionError):  # it has been cut
                self._socket.recv(1)


@pytest.mark.parametrize("reads", ["nothing", "a byte now and then"])
def test_a_stalled_reader_holds_no_slot_and_is_cut(tmp_path: Path, reads: str) -> None:
    """Its generation ends, its slot is free, and only its connection still waits; then that is cut."""
    body = bulky(1, TOKENS)
    with impatient(tmp_path, AFTER) as server, Http1(server, body, receive_buffer=4096) as client:
        (request_id,) = wait_for(server.requests, "the request")
        trickle = Trickle(client)

        def slot_is_free() -> bool:
            if reads != "nothing":
                trickle.read()
            live = server.requests()
            assert request_id in live, "cut, or all sent, before its generation had ended"
            return set(live[request_id]["states"]) == {"done"}

        wait_for(slot_is_free, "the generation to end")
        assert all(slot["state"] == "idle" for slot in server.slots())
        with Http1(server, completion(prompt(30, seed=2), TOKENS)) as other:
            assert len(other.read_all()) == TOKENS

        def is_cut() -> bool:
            if reads != "nothing":
                trickle.read()
            return request_id not in server.requests()

        wait_for(is_cut, "the cut")
        assert server.receipts(request_id) == [], "it was cut after its generation: nothing was cancelled"
        assert f"took too little for {STALL_TIMEOUT} s" in server.log()


def test_one_that_pauses_and_then_reads_gets_all_of_it_in_small_writes(four_slots: Server) -> None:
    """Over HTTP/1.1 each write is a chunk, whose ends the client sees."""
    body = completion(prompt(20, seed=6), TOKENS, logprobs=20, n=2)
    with Http1(four_slots, body, receive_buffer=4096) as client:
        wait_for(lambda: four_slots.requests(), "the request")
        (request_id,) = four_slots.requests()
        four_slots.wait_state(request_id, "done")
        waiting = four_slots.get("/v1/statistics")["unread"]
        assert waiting["readers"] == 1
        assert waiting["bytes"] > 100 * TOKENS
        writes, tokens = [0], []
        client.head()
        while isinstance(event := client.next_event(), h11.Data):
            writes[-1] += len(event.data)
            tokens.append(bytes(event.data))
            if event.chunk_end:
                writes.append(0)
    assert b"".join(tokens).count(b'"token_ids":[') == 2 * TOKENS
    assert max(writes) <= Limits().write_bytes
    assert len(writes) > 5
    assert four_slots.get("/v1/statistics")["unread"]["bytes"] == 0


def test_one_that_is_cut_while_it_still_generates_gets_a_receipt(tmp_path: Path, four_slots: Server) -> None:
    ids = prompt(25, seed=3)
    with Http1(four_slots, completion(ids, 300)) as alone:
        expected = alone.read_all()
    with (
        impatient(tmp_path, 4 * AFTER) as server,
        Http1(server, bulky(4, 4000), receive_buffer=4096),
        Http1(server, completion(ids, 4000)) as neighbour,
    ):
        (stalled,) = wait_for(lambda: server.requests().keys() - {neighbour.id}, "the request")
        neighbour.read_tokens(4 * AFTER)  # the clock has jumped
        (receipt,) = wait_for(lambda: server.receipts(stalled), "the cut")
        assert (receipt["reason"], stage(receipt["phase"])) == ("stalled_reader", "decode")
        assert receipt["computed_tokens"] == receipt["kept_tokens"] + receipt["wasted_tokens"]
        assert receipt["layers_after_cancel"] <= most_layers_after_cancel()
        neighbour.read_tokens(len(neighbour.tokens) + 5)
        assert neighbour.tokens[:300] == expected
