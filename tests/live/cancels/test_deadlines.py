"""Deadlines and the queue's patience, on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.cancels.victims import OURS, SHORT, error_told
from tests.live.fork_server import ForkedServer
from tests.live.http_client import Http1, completion, prompt
from tests.live.server import most_layers_after_cancel, stage, wait_for

# --- deadlines ------------------------------------------------------------------------------------------------------

# The deadline passes in the step that the test says, by a jump of the server's clock, however fast the machine is.
# Nobody meets it by being fast, or misses it by being slow; nothing else on that clock may end at the jump.
LENIENT = ("--request-timeout", "3600", "--stall-timeout", "1e6", "--hang-timeout", "0")
JUMP = 7200  # seconds
BEHIND = 20  # a step in which a short prompt has been read, and its tokens are generated
AMID = 5  # a step in which a long one is read
CHUNK = 16


@contextmanager
def passing(folder: Path, step: int) -> Iterator[ForkedServer]:
    """Room for one, prompts read in slices of 16 tokens, and deadlines that pass in this step."""
    plan = folder / "plan.toml"
    plan.write_text(f'[[fault]]\nwhat = "clock-jump"\nstep = {step}\nseconds = {JUMP}\n', encoding="utf-8")
    flags = ["--chaos", str(plan), "--slots", "1", "--chunk-tokens", str(CHUNK), *LENIENT]
    server = ForkedServer(folder, *flags)
    try:
        yield server
        server.wait_idle()
    finally:
        server.end()


def test_a_deadline_ends_a_stream_that_decodes(tmp_path: Path) -> None:
    """And those of its choices that still wait."""
    with passing(tmp_path, BEHIND) as server, Http1(server, completion([SHORT] * 3, 4000)) as client:
        tokens = client.read_all()
        receipts = server.wait_ended(client.id)
    assert [receipt["reason"] for receipt in receipts] == ["deadline"] * 3
    assert sorted(stage(receipt["phase"]) for receipt in receipts) == ["decode", "queued", "queued"]
    assert client.errors, "two choices got no token, and that is an error"
    assert client.errors[0]["code"] == "deadline_exceeded"
    assert 1 <= len(tokens) <= 4000


@pytest.mark.parametrize("stream", [True, False])
def test_a_deadline_before_the_first_token_is_an_error(tmp_path: Path, stream: bool) -> None:
    prompts = [prompt(2 * AMID * CHUNK, seed=seed) for seed in range(4)]
    with passing(tmp_path, AMID) as server:
        with Http1(server, completion(prompts, 1, stream=stream)) as client:
            told = error_told(client, stream, 504)
        assert told["code"] == "deadline_exceeded"
        server.wait_idle()
        receipts = server.get("/v1/receipts")["data"]
    assert [receipt["reason"] for receipt in receipts] == ["deadline"] * 4
    assert sorted(receipt["phase"] for receipt in receipts) == ["prefill", "queued", "queued", "queued"]
    for receipt in receipts:
        assert receipt["computed_tokens"] == receipt["kept_tokens"] + receipt["wasted_tokens"]
        assert receipt["layers_after_cancel"] <= most_layers_after_cancel()


# --- the queue's patience -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
def test_who_has_waited_long_enough_is_told_to_come_back(impatient: ForkedServer, stream: bool) -> None:
    with Http1(impatient, completion(OURS, 4000)) as neighbour:
        neighbour.read_tokens(1)
        with impatient.held(), Http1(impatient, completion(SHORT, 4, stream=stream)) as client:
            told = error_told(client, stream, 503, retry_after="1")
            wait_for(lambda: list(impatient.requests()) == [neighbour.id], "its end")
        assert told["code"] == "queue_timeout"
        (receipt,) = impatient.get("/v1/receipts?limit=1")["data"]
        assert (receipt["reason"], receipt["phase"], receipt["computed_tokens"]) == ("queue_timeout", "queued", 0)
        neighbour.read_tokens(len(neighbour.tokens) + 5)
    impatient.wait_idle()
