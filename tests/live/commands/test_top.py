"""`cede top` on a terminal and in a pipe."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.live.commands.terminal import CTRL_C, Terminal
from tests.live.fork_server import ForkedServer
from tests.live.http_client import Http1, completion, prompt
from tests.live.server import PATIENCE, Server, command, environment, refusals

KEYS = "q: leave"


@pytest.fixture
def terminal(server: Server) -> Iterator[Terminal]:
    """The viewer of a server that does nothing yet."""
    server.wait_idle()
    with Terminal("top", "--interval", "0.2", extra={"CEDE_URL": server.url}) as terminal:
        terminal.wait_for("cede-embedded", KEYS)
        yield terminal


def leave(terminal: Terminal, key: str = "q") -> None:
    """Leave, and look at what is left behind."""
    terminal.type(key)
    assert terminal.wait_exit() == 0
    assert terminal.is_as_before
    assert "Traceback" not in terminal.text


def test_a_request_is_shown_and_hung_up(server: ForkedServer, terminal: Terminal) -> None:
    with ExitStack() as clients:
        with server.held():  # or it may have ended before it is shown
            stream = clients.enter_context(Http1(server, completion(prompt(30), 3000)))
            terminal.wait_for(stream.id, "prefill")
            terminal.type("h")
            terminal.wait_for(f"hung up {stream.id}")
        stream.read_all()
        assert stream.cancelled == "operator"
    server.wait_idle()
    # The next picture has it among the receipts, where its name begins a line, and in no slot.
    terminal.wait_for(f"{stream.id}  operator: hung up in ", gone=f"  {stream.id}")
    terminal.type("h")
    terminal.wait_for("no request lives")
    leave(terminal)


def test_those_who_wait_are_shown_and_can_be_chosen(server: ForkedServer, terminal: Terminal) -> None:
    with (
        Http1(server, completion(prompt(30, 1), 3000)) as first,
        Http1(server, completion(prompt(30, 2), 3000)) as second,
    ):
        first.read_tokens(1)
        second.read_tokens(1)
        with server.held(), Http1(server, completion(prompt(30, 3), 3000)) as third:
            terminal.wait_for(third.id, "QUEUED", "every slot is taken")
            terminal.type("\x1b[A")  # up, from the first to the last
            terminal.type("h")
            terminal.wait_for(f"hung up {third.id}", "hung up in queued")
            assert set(server.requests()) == {first.id, second.id}
    server.wait_idle()
    leave(terminal, CTRL_C)


def test_a_server_that_goes_away_and_comes_back_is_shown_as_such(tmp_path: Path) -> None:
    with ForkedServer(tmp_path) as server:
        host, port = server.address
        terminal = Terminal("top", "--interval", "0.2", extra={"CEDE_URL": server.url})
        with terminal:
            terminal.wait_for("cede-embedded", KEYS)
            server.end()
            terminal.wait_for("no server answers at", "asking again", "cede-embedded")
            with ForkedServer(tmp_path, "--host", host, "--port", str(port)):
                terminal.wait_for("cede-embedded", gone="asking again")
                leave(terminal)


def test_a_signal_leaves_the_terminal_as_it_was(terminal: Terminal) -> None:
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.wait_exit() == 128 + signal.SIGTERM
    assert terminal.is_as_before


def test_one_picture_as_plain_text(server: ForkedServer) -> None:
    with Http1(server, completion(prompt(30), 3000)) as stream:
        stream.read_tokens(1)
        with server.held():  # or it may have ended before the program has begun
            done = subprocess.run(
                command("top", "--once"),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                env=environment() | {"CEDE_URL": server.url},
                check=False,
            )
        assert (done.returncode, done.stderr) == (0, "")
        assert "\x1b" not in done.stdout
        assert stream.id in done.stdout
    server.wait_idle()


def test_what_is_wrong_is_said_in_a_line() -> None:
    once, plain = refusals([["top", "--once"], ["top"]], CEDE_URL="http://127.0.0.1:1")
    assert "no server answers at http://127.0.0.1:1" in once
    assert "--once writes plain text" in plain
