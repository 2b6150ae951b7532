"""`cede run`: in a pipe, on a terminal, with a model in its own process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.commands.terminal import CTRL_C, Terminal
from tests.live.fork_server import ForkedServer
from tests.live.server import PATIENCE, Server, command, environment, refusals, wait_for

ENDED = {"completion_tokens": 10**9}
# It goes on and on, in float32.
LONG = ("class A:", "--max-tokens", "3500", "--temperature", "0")


def run(server: Server, *arguments: str, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run it in pipes."""
    return subprocess.run(
        command("run", *arguments),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=environment() | {"CEDE_URL": server.url} | variables,
        check=False,
    )


def said(server: Server, prompt: str, **fields: object) -> str:
    """Return what the server answers to the same chat."""
    body = {"messages": [{"role": "user", "content": prompt}], "temperature": 0, "max_tokens": 24} | fields
    _, answer = server.ask("POST", "/v1/chat/completions", body)
    text: str = answer["choices"][0]["message"]["content"]
    return text


@pytest.mark.parametrize("flags", [[], ["--no-stream"]])
def test_a_pipe_gets_exactly_what_the_model_said(server: Server, flags: list[str]) -> None:
    done = run(server, "import os", "--max-tokens", "24", "--temperature", "0", *flags)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == said(server, "import os")


def test_what_comes_in_by_a_pipe_stands_behind_the_prompt(server: Server) -> None:
    flags = ["--max-tokens", "24", "--temperature", "0"]
    assert run(server, "complete", *flags, stdin="def f(").stdout == said(server, "complete\n\ndef f(")
    assert run(server, "-", *flags, stdin="def g(").stdout == said(server, "def g(")
    assert run(server, *flags, stdin="def g(").stdout == said(server, "def g(")


def test_figures_are_said_aside_when_they_are_asked_for(server: Server) -> None:
    done = run(server, "import os", "--max-tokens", "5", "--verbose")
    assert done.stderr.startswith("5 tokens; ")
    assert "cached" in done.stderr


def test_a_schema_holds_the_answer_to_its_form(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    schema = {"type": "object", "properties": {"n": {"enum": [3]}}, "required": ["n"], "additionalProperties": False}
    file.write_text(json.dumps(schema))
    done = run(server, "a number", "--json", str(file), "--max-tokens", "200", "--seed", "1")
    assert json.loads(done.stdout)["n"] == 3


WRONG = [
    (["--url", "http://127.0.0.1:1", "hello"], "no server answers at http://127.0.0.1:1; start one with `cede serve`"),
    (["--url", "nowhere", "hello"], "one is written as http://127.0.0.1:8000"),
    (["--temperature", "7", "hello"], "Invalid 'temperature'"),
    (["--json", "README.md", "hello"], "--json: README.md"),
    ([], "the prompt is empty"),
    (["--model", "no/such-model", "hello"], "no/such-model"),
    (["--model", "embedded", "--url", "http://127.0.0.1:1", "hello"], "say one of them"),
]


def test_what_is_wrong_is_said_in_a_line(server: Server) -> None:
    said = refusals((["run", *arguments] for arguments, _ in WRONG), CEDE_URL=server.url)
    assert [line for line, (_, says) in zip(said, WRONG, strict=True) if says not in line] == []


def test_a_key_is_sent_from_the_variable_or_the_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("secret\n")
    with ForkedServer(tmp_path, "--api-key", "secret") as server:
        refused = run(server, "hello")
        assert refused.returncode == 1
        assert "CEDE_API_KEY" in refused.stderr
        assert run(server, "hello", "--max-tokens", "3", CEDE_API_KEY="secret").returncode == 0
        assert run(server, "hello", "--max-tokens", "3", "--api-key-file", str(file)).returncode == 0


def test_a_reader_that_leaves_ends_the_request(server: Server) -> None:
    server.wait_idle()
    with subprocess.Popen(
        command("run", *LONG),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment() | {"CEDE_URL": server.url},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        (request_id,) = server.requests()
        process.stdout.close()
        (receipt,) = server.wait_ended(request_id)
        assert receipt["reason"] == "client_disconnect"
        assert process.stderr.read() == b""
        assert process.wait(PATIENCE) == 128 + signal.SIGPIPE


def test_ctrl_c_hangs_up_and_shows_the_receipt(server: Server) -> None:
    server.wait_idle()
    with Terminal("run", *LONG, extra={"CEDE_URL": server.url}) as terminal:
        (request_id,) = wait_for(server.requests, "the request")
        server.wait_state(request_id, "decode")
        terminal.type(CTRL_C)
        text = terminal.wait_for("hung up in ", "kept for a retry")
        assert terminal.wait_exit() == 130
        assert terminal.is_as_before
    assert "Traceback" not in text
    (receipt,) = server.wait_ended(request_id)
    assert receipt["reason"] == "client_disconnect"


def test_a_slow_reader_can_be_interrupted(server: Server) -> None:
    """Its pipe is full, and the write waits in a thread."""
    server.wait_idle()
    with subprocess.Popen(
        [sys.executable, "-c", FILLS_ITS_PIPE, *command("run", *LONG)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=environment() | {"CEDE_URL": server.url},
    ) as process:
        (request_id,) = wait_for(server.requests, "the request")
        wait_for(lambda: server.requests().get(request_id, ENDED)["completion_tokens"] >= 3000, "3000 tokens")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130


FILLS_ITS_PIPE = """
import fcntl, os, sys
fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 4096) if sys.platform == "linux" else None
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_an_answer_on_a_terminal_ends_its_line_and_says_what_it_took(server: Server) -> None:
    with Terminal("run", "import os", "--max-tokens", "9", extra={"CEDE_URL": server.url}) as terminal:
        assert terminal.wait_exit() == 0
        assert [line for line in terminal.lines if line.startswith("9 tokens; ")]


def test_a_model_is_served_in_the_process_itself(server: Server) -> None:
    flags = ["--max-tokens", "24", "--temperature", "0", "--dtype", "float32"]
    done = run(server, "--model", "embedded", "import os", *flags, CEDE_URL="http://127.0.0.1:1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == said(server, "import os")
