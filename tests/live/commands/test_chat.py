"""`cede chat` on a terminal."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.commands.silent_server import silent_server
from tests.live.commands.terminal import CTRL_C, CTRL_D, ENTER, UP, Terminal
from tests.live.server import PATIENCE, Server, wait_for

READY = "/help shows the commands"
LEAVES = "Ctrl-D, leaves"
LONG = "class A:"  # after which the model goes on and on, in float32
QUESTION = "def read(path): # the lines of a file, without those that are empty or begin with a number sign"


@pytest.fixture
def terminal(server: Server, tmp_path: Path) -> Iterator[Terminal]:
    """A chat that has begun, of greedy answers."""
    server.wait_idle()
    extra = {"CEDE_URL": server.url, "XDG_STATE_HOME": str(tmp_path)}
    with Terminal("chat", "--temperature", "0", extra=extra) as terminal:
        terminal.wait_for(READY)
        yield terminal


def leave(terminal: Terminal) -> None:
    """Leave by Ctrl-D, and look at what is left behind."""
    terminal.type(CTRL_D)
    assert terminal.wait_exit() == 0
    assert terminal.is_as_before
    assert "Traceback" not in terminal.text


def hang_up(server: Server, terminal: Terminal) -> str:
    """Press Ctrl-C in the middle of an answer; the request's id."""
    (request_id,) = wait_for(server.requests, "the request")
    server.wait_state(request_id, "decode")
    terminal.type(CTRL_C)
    return request_id


def test_an_answer_streams_and_says_what_it_took(server: Server, terminal: Terminal) -> None:
    terminal.enter("/set max_tokens 30")
    terminal.wait_for("temperature 0.0, max_tokens 30")
    terminal.enter("import os")
    text = terminal.wait_for("tokens/s; prompt ")
    assert re.search(r"\d+ tokens; ", text)
    terminal.enter("/stats")
    terminal.wait_for("2 messages here; 1 whole answer of ")
    leave(terminal)


def test_ctrl_c_hangs_up_shows_the_receipt_and_the_prompt_comes_back(server: Server, terminal: Terminal) -> None:
    terminal.enter(LONG)
    request_id = hang_up(server, terminal)
    terminal.wait_for("hung up in ", "kept for a retry", "/retry asks again")
    (receipt,) = server.wait_ended(request_id)
    assert receipt["reason"] == "client_disconnect"
    terminal.enter("/set max_tokens 5")
    terminal.wait_for("max_tokens 5")
    terminal.enter("/retry")
    terminal.wait_for("5 tokens; ")
    leave(terminal)


def test_what_is_pressed_between_an_answer_and_the_prompt_waits_for_the_prompt(tmp_path: Path) -> None:
    """Ctrl-C among it: it is no signal then, which would be lost, with all that was typed before it."""
    with silent_server() as silent:
        extra = {"CEDE_URL": silent.url, "XDG_STATE_HOME": str(tmp_path)}
        with Terminal("chat", extra=extra) as terminal:
            terminal.wait_for(READY)
            terminal.enter("and then?")
            terminal.wait_for("it never ends")
            terminal.type(CTRL_C)
            assert silent.asked_for_receipt.wait(PATIENCE)
            terminal.type(CTRL_C)
            silent.may_tell.set()
            assert terminal.wait_exit() == 0, "the second Ctrl-C has left"
            assert terminal.is_as_before


def test_at_the_prompt_one_ctrl_c_only_says_how_to_leave(terminal: Terminal) -> None:
    terminal.type("half a line")
    terminal.wait_for("> half a line")
    terminal.type(CTRL_C)  # puts the line away
    terminal.type("/mod")
    terminal.wait_for("> /mod")
    terminal.type(CTRL_C)
    terminal.type(CTRL_C)
    terminal.wait_for(LEAVES)
    terminal.type(CTRL_C)
    assert terminal.wait_exit() == 0
    assert terminal.is_as_before


def test_a_retry_says_how_much_of_the_prompt_was_cached(terminal: Terminal) -> None:
    terminal.enter("/set max_tokens 4")
    terminal.wait_for("max_tokens 4")
    terminal.enter(QUESTION)
    first = re.search(r"prompt (\d+) tokens?, (\d+) cached", terminal.wait_for("cached"))
    terminal.enter("/retry")
    terminal.wait_for(f"prompt {first[1]} tokens, {int(first[1]) - 1} cached") if first else pytest.fail("no figures")
    leave(terminal)


def test_lines_are_edited_remembered_and_begun_anew(server: Server, terminal: Terminal) -> None:
    terminal.enter("/set max_tokens 3")
    terminal.wait_for("max_tokens 3")
    terminal.type("one\\" + ENTER)
    terminal.type("two\\" + ENTER)
    terminal.enter("three")
    terminal.wait_for("3 tokens; ")
    terminal.type(UP)  # the last of its three lines
    terminal.wait_for("> one\n  two\n  three\n")
    terminal.type(CTRL_C)
    terminal.enter("/undo")
    terminal.wait_for("> one\n  two\n  three")
    terminal.type(CTRL_C)
    leave(terminal)


def test_a_conversation_is_saved_and_gone_on_with(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    terminal.enter("/set max_tokens 3")
    terminal.wait_for("max_tokens 3")
    terminal.enter("import os")
    terminal.wait_for("3 tokens; ")
    terminal.enter(f"/save {file}")
    terminal.wait_for("2 messages saved in")
    saved = json.loads(file.read_text())
    assert [message["role"] for message in saved["messages"]] == ["user", "assistant"]
    terminal.enter("/new")
    terminal.wait_for("a new conversation")
    terminal.enter(f"/load {file}")
    terminal.wait_for("2 messages from")
    (tmp_path / "other").write_text("kept")
    terminal.enter(f"/save {tmp_path / 'other'}")
    terminal.wait_for("is there already")
    leave(terminal)
    assert (tmp_path / "other").read_text() == "kept"
    assert "/new" in (tmp_path / "cede" / "chat_history").read_text()
    assert (tmp_path / "cede" / "chat_history").stat().st_mode & 0o77 == 0


def test_commands_are_completed_and_slips_said(terminal: Terminal) -> None:
    terminal.type("/sy")
    terminal.wait_for("what the model is told before all else")
    terminal.type("\t Be brief." + ENTER)
    terminal.wait_for("is set")
    terminal.enter("/retri")
    terminal.wait_for("is /retry meant?")
    terminal.enter("/set temperature 9")
    terminal.wait_for("temperature 9.0")
    terminal.enter("hello")
    terminal.wait_for("Invalid 'temperature'")
    leave(terminal)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_the_prompt_leaves_the_terminal_as_it_was(terminal: Terminal, number: signal.Signals) -> None:
    terminal.type("half a line")
    terminal.wait_for("> half a line")
    terminal.process.send_signal(number)
    assert terminal.wait_exit() == 128 + number
    assert terminal.is_as_before


def test_a_server_that_is_not_there_is_said(tmp_path: Path) -> None:
    with Terminal("chat", extra={"CEDE_URL": "http://127.0.0.1:1", "XDG_STATE_HOME": str(tmp_path)}) as terminal:
        assert terminal.wait_exit() == 1
        assert "no server answers at http://127.0.0.1:1" in terminal.text
        assert terminal.is_as_before


def test_a_chat_with_a_model_in_its_own_process(tmp_path: Path) -> None:
    arguments = ["chat", "--model", "embedded", "--temperature", "0", "--dtype", "float32"]
    with Terminal(*arguments, extra={"XDG_STATE_HOME": str(tmp_path)}) as terminal:
        terminal.wait_for("this process: cede-embedded", READY)
        terminal.enter(LONG)
        terminal.wait_for("def __init__")
        terminal.type(CTRL_C)
        terminal.wait_for("hung up in ")
        leave(terminal)
