"""Recording by `--record` of a real run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.fork_server import ForkedServer
from tests.live.http_client import Http1, completion, prompt
from tests.live.server import COMPLETIONS, Server, wait_for
from tests.sim.instruments.picture import Picture, read

FLAGS = ("--slots", "1", "--speculate", "mtp")


def _some_requests(server: Server) -> list[str]:
    """One that ends, one whose client leaves while its tokens come, and one that leaves the queue behind that."""
    _, answer = server.ask("POST", COMPLETIONS, {"prompt": prompt(200), "max_tokens": 12, "ignore_eos": True})
    with Http1(server, completion(prompt(20, 1), 4000)) as decoding:
        decoding.read_tokens(1)
        with Http1(server, completion(prompt(20, 2), 4000)):
            wait_for(lambda: len(server.requests()) == 2, "the second to wait")
            (waiting,) = set(server.requests()) - {decoding.id}
        server.wait_ended(waiting)
    server.wait_ended(decoding.id)
    return [answer["id"], decoding.id, waiting]


def test_a_recording_of_a_real_run_shows_steps_and_slots_and_cancels(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    with ForkedServer(tmp_path, *FLAGS, "--record", str(path)) as server:
        finished, decoding, waiting = _some_requests(server)
        receipts = {name: server.receipts(name)[0] for name in (decoding, waiting)}
        server.wait_idle()
        statistics = server.get("/v1/statistics")
        assert ", dropped 0" in server.whole_log()
    assert path.read_text().endswith("]\n")
    events = read(path.read_text())
    picture = Picture(events)
    picture.check()
    (began,) = (event["args"]["unix_time"] for event in events if event["name"] == "recording begins")

    assert set(picture.waits) == {f"{name}/0" for name in (finished, decoding, waiting)}
    assert [hold.name for hold in picture.spans["slot 0"]] == [f"{finished}/0", f"{decoding}/0"]
    steps = [span for span in picture.spans["steps"] if span.name.startswith("step ")]
    # Where the machine is fast, several steps are one burst.
    assert sum(span.args["steps"] for span in steps) == statistics["manager"]["steps"]
    work = picture.spans["slot 0: work"]
    assert (
        {"prefill", "draft", "verify"}
        <= {part.name for part in work}
        <= {"prefill", "draft", "verify", "decode", "save"}
    )
    assert any(span.name == "layer 0" for span in picture.spans["steps"])

    cancels = {event["args"]["request_id"]: event for event in picture.cancels()}
    assert set(cancels) == set(receipts)
    for name, receipt in receipts.items():
        args = cancels[name]["args"]
        assert {field: args[field] for field in ("reason", "phase", "kept_tokens", "wasted_tokens")} == {
            field: receipt[field] for field in ("reason", "phase", "kept_tokens", "wasted_tokens")
        }
        # Two clocks are read one after the other, at both ends; the unit tests, with one clock, are exact.
        assert began + cancels[name]["ts"] / 1e6 == pytest.approx(receipt["detected_at"], abs=1.0)
    assert cancels[waiting] in picture.instants["cancelled"]
    assert cancels[decoding] in picture.instants["slot 0"]
