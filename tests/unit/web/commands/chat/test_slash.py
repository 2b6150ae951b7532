"""Commands that begin with a slash."""

from __future__ import annotations

import pytest

from web.commands.chat.conversation import ChatError
from web.commands.chat.slash import COMMANDS, completions, help_lines, parse


@pytest.mark.parametrize(
    ("line", "name", "rest"),
    [
        ("/help", "/help", ""),
        ("  /retry ", "/retry", ""),
        ("/set temperature 0.2", "/set", "temperature 0.2"),
        ("/system Be  brief.", "/system", "Be  brief."),
        ("/save ~/a file", "/save", "~/a file"),
    ],
)
def test_a_line_is_read(line: str, name: str, rest: str) -> None:
    found = parse(line)
    assert found is not None
    assert (found[0].name, found[1]) == (name, rest)


@pytest.mark.parametrize("line", ["hello", "", "/etc/passwd is what?", "what is /help", "//"])
def test_what_is_said_to_the_model_is_no_command(line: str) -> None:
    assert parse(line) is None


@pytest.mark.parametrize(
    ("line", "says"), [("/retri", "is /retry meant"), ("/xyzzy", "/help shows"), ("/undo all", "takes nothing")]
)
def test_a_slip_is_said(line: str, says: str) -> None:
    with pytest.raises(ChatError, match=says):
        parse(line)


def test_what_can_follow_is_offered() -> None:
    assert [name for name, _ in completions("/")] == list(COMMANDS)
    assert [name for name, _ in completions("/s")] == ["/system", "/set", "/save", "/stats"]
    assert [name for name, _ in completions("/set temp")] == ["temperature"]
    assert completions("/set temperature ") == completions("hello /s") == completions("/undo ") == []


def test_help_has_each_command() -> None:
    assert {name for name, _ in help_lines()} >= {"/help", "/set NAME VALUE", "/load FILE"}
