"""A log whose reader stalls, as a paused terminal does: it costs lines of the log, and nothing else."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.live.http_client import Http1, completion, prompt
from tests.live.process.piped import PipedServer
from tests.live.server import COMPLETIONS


def test_a_stalled_reader_of_the_log_holds_up_nobody_and_has_the_lines_in_order_when_it_reads_again(
    tmp_path: Path,
) -> None:
    with PipedServer(tmp_path) as server:
        server.wait_ready()
        with Http1(server, completion(prompt(20), 4000)) as stream:
            stream.read_tokens(1)
            server.stall()
            asked = {"prompt": "def", "max_tokens": 1}
            ids = [server.ask("POST", COMPLETIONS, asked)[1]["id"] for _ in range(3)]  # each is a line
            assert server.ask("GET", "/health")[0] == 200
            stream.read_tokens(len(stream.tokens) + 20)
        log = server.wait_log(ids[-1])
        assert sorted(ids, key=log.index) == ids
        server.signal(signal.SIGTERM)
        assert server.wait_exit() == 0
        assert "stopped; requests served: 4" in server.log().splitlines()[-1]
