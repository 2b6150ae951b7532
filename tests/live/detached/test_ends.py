"""Detached requests whose server loses its device, or is told to end, while nobody reads them."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path

from tests.live.detached.cutting import asking, events_in, take_up, text_of
from tests.live.fork_server import ForkedServer
from tests.live.http_client import completion, prompt
from tests.live.server import COMPLETIONS, Server, wait_for

DETACH = {"on_disconnect": "detach"}


def leave(server: Server, tokens: int, seed: int, *, after: int = 1) -> tuple[str, list[bytes]]:
    """Ask for a stream, read so many of its events, and hang up; the request's id, and the events."""
    body = completion(prompt(20, seed=seed), tokens, cede=DETACH)
    with asking(server, "POST", COMPLETIONS, body) as response:
        request_id, read = response.headers["x-request-id"], b""
        while len(events_in(read)) < after:
            read += response.read1(300)
    return request_id, events_in(read)


def wait_detached(server: Server, count: int) -> None:
    """Wait until nobody reads so many that run."""
    wait_for(lambda: server.get("/v1/statistics")["detachable"]["detached"] == count, f"{count} to be detached")


def stream_of(server: Server, request_id: str, known: int = 0) -> list[bytes]:
    """The events that follow on so many, to the end."""
    _, opening = take_up(server, "after", request_id, known)
    with opening as response:
        assert response.status == 200
        return events_in(response.read())


def solo(server: Server, tokens: int, seed: int) -> str:
    """The text of such a stream that nobody leaves."""
    with asking(server, "POST", COMPLETIONS, completion(prompt(20, seed=seed), tokens)) as response:
        return text_of(events_in(response.read()))


def test_a_detached_stream_ends_with_the_loss_of_its_device_and_one_that_held_nothing_is_served(
    tmp_path: Path,
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('[[fault]]\nwhat = "thread-death"\nstep = 600\nlayer = 1\n', encoding="utf-8")
    flags = ("--chaos", str(plan), "--slots", "1", "--speculate", "off", "--chunk-tokens", "64", "--hang-timeout", "0")
    with ForkedServer(tmp_path, *flags) as server:
        expected = solo(server, 10, seed=1)
        running, known = leave(server, 4000, seed=0)
        with server.held():  # or the device is lost before they are looked at
            queued, _ = leave(server, 10, seed=1, after=0)
            wait_detached(server, 2)
        whole = stream_of(server, running)
        assert whole[: len(known)] == known
        assert whole == stream_of(server, running), "who comes later is told the same"
        assert b'"code":"device_lost"' in whole[-1]
        assert b"[DONE]" not in b"".join(whole)
        assert [receipt["reason"] for receipt in server.receipts(running)] == ["fault"]
        assert text_of(stream_of(server, queued)) == expected
        assert server.receipts(queued) == []
        server.wait_idle()
        assert server.get("/v1/statistics")["manager"]["device_losses"] == 1


def test_one_that_nobody_reads_finishes_within_the_grace_and_may_be_taken_up_meanwhile(tmp_path: Path) -> None:
    flags = ("--grace", "3600", "--slots", "1", "--kv-ram", "0", "--hang-timeout", "0")
    with ForkedServer(tmp_path, *flags) as server, ExitStack() as readers:
        expected = solo(server, 1000, seed=2)
        request_id, known = leave(server, 1000, seed=2, after=4)
        with server.held():  # or it is whole, and the server gone, before it is taken up
            wait_detached(server, 1)
            server.signal(signal.SIGTERM)
            wait_for(lambda: server.ask("GET", "/health")[0] == 503, "the end of admission")
            _, opening = take_up(server, "after", request_id, len(known))
            response = readers.enter_context(opening)
        rest = events_in(response.read())
        assert text_of([*known, *rest]) == expected
        assert rest[-1].endswith(b"data: [DONE]\n\n")
        assert server.wait_exit() == 0
        assert "Traceback" not in server.log()
