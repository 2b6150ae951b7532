"""Clients that do not read: they hold no slot, they are cut, and nobody waits for them.

What fills the socket's buffers within a few tokens is the model's name, which each chunk repeats.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.forked import ForkedServer
from tests.live import Http1, completion, prompt, stage, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.live import Json, Server

NAME = "x" * 300_000
TOKENS = 40  # times the name is more than a socket's buffers hold
STALL_TIMEOUT = 3  # seconds; more than so few tokens take


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Cuts whoever takes nothing for a while."""
    flags = ("--slots", "2", "--stall-timeout", str(STALL_TIMEOUT))
    with ForkedServer(tmp_path_factory.mktemp("server"), *flags) as server:
        yield server


def bulky(seed: int, max_tokens: int) -> Json:
    return completion(prompt(20, seed=seed), max_tokens, model=NAME)


class Trickle:
    """Reads a byte, but not before a quarter of a second has passed since the last."""

    def __init__(self, client: Http1) -> None:
        self._socket = client.socket
        self._next = time.monotonic()

    def read(self) -> None:
        if time.monotonic() >= self._next:
            self._next += 0.25
            with suppress(ConnectionError):  # it has been cut
                self._socket.recv(1)


@pytest.mark.parametrize("reads", ["nothing", "a byte now and then"])
def test_a_stalled_reader_holds_no_slot_and_is_cut(impatient: Server, reads: str) -> None:
    """Its generation ends, its slot is free, and only its connection still waits; then that is cut."""
    with Http1(impatient, bulky(1, TOKENS), receive_buffer=4096) as client:
        (request_id,) = wait_for(impatient.requests, "the request")
        trickle = Trickle(client)

        def slot_is_free() -> bool:
            if reads != "nothing":
                trickle.read()
            live = impatient.requests()
            assert request_id in live, "cut, or all sent, before its generation had ended"
            return set(live[request_id]["states"]) == {"done"}

        wait_for(slot_is_free, "the generation to end")
        assert all(slot["state"] == "idle" for slot in impatient.slots())
        with Http1(impatient, completion(prompt(30, seed=2), 10)) as other:
            assert len(other.read_all()) == 10

        def is_cut() -> bool:
            if reads != "nothing":
                trickle.read()
            return request_id not in impatient.requests()

        wait_for(is_cut, "the cut")
    assert impatient.receipts(request_id) == [], "it was cut after its generation: nothing was cancelled"
    assert f"took too little for {STALL_TIMEOUT} s" in impatient.log()


def test_one_that_is_cut_while_it_still_generates_gets_a_receipt(impatient: Server) -> None:
    ids = prompt(25, seed=3)
    with Http1(impatient, completion(ids, 300)) as alone:
        expected = alone.read_all()
    with Http1(impatient, bulky(4, 4000), receive_buffer=4096), Http1(impatient, completion(ids, 4000)) as neighbour:
        (stalled,) = wait_for(lambda: impatient.requests().keys() - {neighbour.id}, "the request")
        neighbour.read_tokens(1)
        (receipt,) = wait_for(lambda: impatient.receipts(stalled), "the cut")
        assert (receipt["reason"], stage(receipt["phase"])) == ("stalled_reader", "decode")
        assert receipt["computed_tokens"] == receipt["kept_tokens"] + receipt["wasted_tokens"]
        assert receipt["layers_after_cancel"] <= 1
        produced = impatient.requests()[neighbour.id]["completion_tokens"]
        assert neighbour.read_tokens(produced + 5)[:300] == expected[: len(neighbour.tokens)]
    impatient.wait_idle()
