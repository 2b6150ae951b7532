"""End of the server: politely, then less politely, and never because a client allows it to."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.live.fork_server import ForkedServer
from tests.live.http_client import Http1, completion, prompt
from tests.live.server import COMPLETIONS, Gone, wait_for

LONG = "3600"  # seconds, which no test waits for


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ForkedServer]]:
    """One for each test, all started at a time."""
    folder = tmp_path_factory.mktemp("servers")
    made = {
        "patient": ForkedServer(folder, "--grace", LONG, "--slots", "1", "--hang-timeout", "0"),
        "hasty": ForkedServer(folder, "--grace", "0.01", "--stall-timeout", LONG, "--slots", "2"),
        "twice": ForkedServer(folder, "--grace", LONG, "--slots", "1", "--hang-timeout", "0"),
    }
    yield made
    for server in made.values():
        server.end()


def test_running_requests_finish_and_new_ones_are_refused(servers: dict[str, ForkedServer]) -> None:
    server = servers["patient"]
    with ExitStack() as clients:
        with server.held():  # from before they come: neither is done too soon, and the first has the slot
            running = clients.enter_context(Http1(server, completion(prompt(20), 40)))
            server.wait_state(running.id, "prefill")
            queued = clients.enter_context(Http1(server, completion(prompt(9), 5)))
            assert server.states(queued.id) == ["queued"]
            server.signal(signal.SIGTERM)
            wait_for(lambda: server.ask("GET", "/health")[0] == 503, "the end of admission")
            status, answer = server.ask("POST", COMPLETIONS, completion(prompt(5), 1, stream=False))
            assert status == 503
            assert answer["error"]["code"] == "shutting_down"
        assert len(running.read_all()) == 40
        assert (running.finish_reason, running.done) == ("length", True)
        assert len(queued.read_all()) == 5, "it was admitted before the signal"
    assert server.wait_exit() == 0
    assert "Traceback" not in server.log()


def test_what_outlasts_the_grace_is_cancelled_and_a_stalled_client_holds_up_nothing(
    servers: dict[str, ForkedServer],
) -> None:
    server = servers["hasty"]
    with (
        Http1(server, completion(prompt(20), 4000)) as running,
        Http1(server, completion(prompt(20, seed=1), 250, logprobs=20), receive_buffer=4096) as stalled,
    ):
        wait_for(lambda: server.requests().get(stalled.id, {}).get("states") == ["done"], "its generation to end")
        assert stalled.id in server.requests(), "it has not stalled"
        server.signal(signal.SIGINT)
        running.read_all()
        assert (running.cancelled, running.done) == ("shutdown", True)
        assert server.wait_exit() == 0
    assert "Traceback" not in server.log()


def test_a_second_signal_ends_it_at_once(servers: dict[str, ForkedServer]) -> None:
    server = servers["twice"]
    with Http1(server, completion(prompt(20), 4000)) as running:
        running.read_tokens(2)
        with server.held():
            server.signal(signal.SIGTERM)
            wait_for(lambda: server.ask("GET", "/health")[0] == 503, "the end of admission")
            server.signal(signal.SIGTERM)
            assert server.wait_exit() == 128 + signal.SIGTERM
        with pytest.raises(Gone):
            running.read_all()
    assert "Traceback" not in server.log()
