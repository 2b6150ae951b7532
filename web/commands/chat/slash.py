"""The commands that begin with a slash: their table, how a line is read, and what can follow what is typed.  Pure."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from web.commands.chat.conversation import SETTINGS, ChatError

FILE = "FILE"


@dataclass(frozen=True, slots=True)
class Command:
    """A command.

    Attributes:
        name: with its slash.
        takes: what follows it, for people; empty for nothing.
        about: what it does.
    """

    name: str
    takes: str
    about: str


COMMANDS = {
    command.name: command
    for command in (
        Command("/help", "", "these commands, and the keys"),
        Command("/new", "", "begin anew; what was set stays"),
        Command("/retry", "", "another answer to the same question"),
        Command("/undo", "", "take the last question and its answer back"),
        Command("/system", "TEXT", "what the model is told before all else; nothing for none"),
        Command("/set", "NAME VALUE", "a field of requests, as in /set temperature 0.2; no VALUE for its default"),
        Command("/model", "", "which model answers"),
        Command("/save", FILE, "write the conversation"),
        Command("/load", FILE, "read one, and go on with it"),
        Command("/stats", "", "what this chat has taken"),
        Command("/quit", "", "leave, as Ctrl-D does"),
    )
}

KEYS = (
    ("Enter", "sends"),
    ("Alt-Enter, or \\ at a line's end", "begins another line"),
    ("Ctrl-C in an answer", "hangs up; what was computed is kept for a retry"),
    ("Ctrl-C twice, Ctrl-D", "leaves"),
    ("Up, Ctrl-R", "what was typed before"),
)


def parse(line: str) -> tuple[Command, str] | None:
    """The command that a line is, and what follows it; None for what is said to the model.

    A text that only begins with a slash, such as a path, has another one in its first word.

    Raises:
        ChatError: there is no such command, or it takes nothing.
    """
    head, _, rest = line.strip().partition(" ")
    if not head.startswith("/") or "/" in head[1:] or "\n" in head:
        return None
    if (command := COMMANDS.get(head)) is None:
        close = difflib.get_close_matches(head, COMMANDS, n=1)
        raise ChatError(f"there is no {head}; " + (f"is {close[0]} meant?" if close else "/help shows what there is"))
    if rest.strip() and not command.takes:
        raise ChatError(f"{head} takes nothing")
    return command, rest.strip()


def completions(typed: str) -> list[tuple[str, str]]:
    """Return what can stand in place of the last word that is typed, each with what it does; none but for a command."""
    if not typed.startswith("/"):
        return []
    head, space, rest = typed.partition(" ")
    if not space:
        return [(name, command.about) for name, command in COMMANDS.items() if name.startswith(head)]
    if head == "/set" and " " not in rest:
        return [(name, "") for name in SETTINGS if name.startswith(rest)]
    return []


def help_lines() -> list[tuple[str, str]]:
    """The commands and the keys, each with what it does."""
    named = [(f"{command.name} {command.takes}".rstrip(), command.about) for command in COMMANDS.values()]
    return [*named, ("", ""), *KEYS]
