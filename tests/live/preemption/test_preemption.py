"""One slot, a stream of low priority, an important request: the stream pauses, and goes on as if it were alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live.fork_server import ForkedServer
from tests.live.http_client import Http1, completion, prompt
from tests.live.server import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKENS = 400
OURS = prompt(200, seed=41)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedServer]:
    """Room for one."""
    flags = ("--slots", "1", "--kv-ram", "64MiB", "--hang-timeout", "0")
    with ForkedServer(tmp_path_factory.mktemp("server"), *flags) as server:
        yield server


def test_the_stream_goes_on_with_the_tokens_of_a_solo_run(server: ForkedServer) -> None:
    with Http1(server, completion(OURS, TOKENS, cache_prompt=False)) as alone:
        expected = alone.read_all()
    with Http1(server, completion(OURS, TOKENS, priority=10)) as stream:
        stream.read_tokens(20)
        with server.held():  # or it may end before the other comes
            urgent = Http1(server, completion(prompt(30, seed=42), 3000))
            assert urgent.id
        with urgent:
            urgent.read_tokens(5)
            assert server.requests()[stream.id]["parks"] == 1
        assert stream.read_all() == expected


def test_a_hang_up_on_one_that_is_preempted_leaves_a_receipt_at_once(server: ForkedServer) -> None:
    server.wait_idle()
    with Http1(server, completion(OURS, 3000, priority=10)) as stream:
        stream.read_tokens(20)
        with Http1(server, completion(prompt(30, seed=43), 3000)) as urgent:
            urgent.read_tokens(1)
            wait_for(lambda: server.states(stream.id) == ["parked"], "the stream to be preempted")
            with server.held():  # or the urgent one may have ended
                stream.close()
                (receipt,) = server.wait_ended(stream.id)
                assert server.states(urgent.id) == ["decode"], "it has the slot still"
            assert (receipt["reason"], receipt["phase"], receipt["parks"]) == ("client_disconnect", "parked", 1)
            assert receipt["parked_seconds"] > 0
            assert receipt["slot_freed_at"] is None
    server.wait_idle()
