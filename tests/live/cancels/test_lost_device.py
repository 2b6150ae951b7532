"""A real server whose device thread ends, or hangs: nobody waits for ever, and who may come again is told so."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.live.fork_server import ForkedServer
from tests.live.http_client import Http1, Reader, completion, prompt
from tests.live.server import wait_for

HANG_TIMEOUT = 1.5  # seconds; enough for a layer of a small model on any machine that the tests run on
TOKENS = 10


@contextmanager
def failing(folder: Path, plan: str, *flags: str) -> Iterator[ForkedServer]:
    """A server for one request at a time, whose steps fail as planned."""
    path = folder / "plan.toml"
    path.write_text(plan, encoding="utf-8")
    server = ForkedServer(folder, "--chaos", str(path), "--slots", "1", "--speculate", "off", *flags)
    try:
        yield server
    finally:
        server.end()


def check_told(response: Reader) -> None:
    """A stream that had begun, and was cut short by an error that says why."""
    response.read_all()
    (error,) = response.errors
    assert error["code"] == "device_lost"
    assert "again" in error["message"]
    assert not response.done


def test_a_device_thread_that_ends_is_replaced(tmp_path: Path) -> None:
    plan = '[[fault]]\nwhat = "thread-death"\nstep = 50\nlayer = 1\nevery = 50\n'
    short = completion(prompt(20), TOKENS)
    with failing(tmp_path, plan) as server:
        with Http1(server, short) as alone:
            expected = alone.read_all()
        with Http1(server, completion(prompt(20, seed=1), 4000)) as running:
            assert running.id  # so that it is there before the other
            with Http1(server, short) as queued:
                check_told(running)
                assert queued.read_all() == expected, "it held nothing, and was served"
        assert server.get("/health") == {"status": "ok"}
        assert server.get("/v1/statistics")["manager"]["device_losses"] == 1
        with Http1(server, completion(prompt(20, seed=2), 4000, stream=False)) as unlucky:
            status, headers, answer = unlucky.answer()
        assert (status, answer["error"]["code"]) == (503, "device_lost")
        assert int(headers["retry-after"]) > 0
        with Http1(server, short) as again:
            assert again.read_all() == expected
        server.wait_idle()
        assert {receipt["reason"] for receipt in server.get("/v1/receipts")["data"]} == {"fault"}
        server.signal(signal.SIGTERM)
        assert server.wait_exit() == 0


def test_a_device_that_hangs_holds_up_neither_clients_nor_the_end(tmp_path: Path) -> None:
    plan = '[[fault]]\nwhat = "slow-step"\nstep = 20\nseconds = 100000\n'
    with failing(tmp_path, plan, "--hang-timeout", str(HANG_TIMEOUT)) as server:
        with Http1(server, completion(prompt(20), 4000)) as running:
            assert running.id  # so that the other, which would be done by then, waits
            with Http1(server, completion(prompt(9), 5)) as queued:
                check_told(running)
                check_told(queued)
        status, answer = server.ask("GET", "/health")
        assert status == 503
        assert f"{HANG_TIMEOUT:g} s" in answer["error"]["message"]
        with Http1(server, completion(prompt(9), 5)) as refused:
            status, headers, answer = refused.answer()
        assert (status, answer["error"]["code"]) == (503, "device_lost")
        assert int(headers["retry-after"]) > 0
        wait_for(lambda: not server.requests(), "all requests to end")
        server.signal(signal.SIGTERM)
        assert server.wait_exit() == 1
        assert "ends without it" in server.log()
