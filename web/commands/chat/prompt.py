"""Reading what a person types: lines with editing, history and completion, by prompt_toolkit.

prompt_toolkit runs on asyncio.  It does so in a worker thread, and the event loop here goes on meanwhile: so does a
model that is served in this process.
"""

from __future__ import annotations

import os
from enum import Enum, auto
from typing import TYPE_CHECKING

import platformdirs
import trio
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings

from web.commands.chat.slash import COMMANDS, FILE, completions

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyPressEvent

PROMPT, CONTINUATION = "> ", "  "


class Key(Enum):
    """Key that was pressed instead of a line's end."""

    INTERRUPT = auto()  # Ctrl-C, on an empty line
    END = auto()  # Ctrl-D


class Prompt:
    """Reads lines.

    Args:
        history: of what was typed before.
    """

    def __init__(self, history: History) -> None:
        self._session: PromptSession[str] = PromptSession(
            PROMPT,
            multiline=True,
            prompt_continuation=CONTINUATION,
            history=history,
            completer=SlashCompleter(),
            complete_while_typing=True,
            key_bindings=_keys(),
            reserve_space_for_menu=6,
        )
        self._ended = False

    async def read(self, default: str = "") -> str | Key:
        """Return what is typed next; `default` stands there to begin with.  A cancel leaves the terminal in order."""
        said: str | Key = Key.END
        self._ended = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._leave_on_cancel)
            with trio.CancelScope(shield=True):  # the thread is told, and puts the terminal in order
                said = await trio.to_thread.run_sync(self._read, default)
            self._ended = True
            nursery.cancel_scope.cancel()
        return said

    def _read(self, default: str) -> str | Key:
        while True:
            try:
                return self._session.prompt(default=default)
            except KeyboardInterrupt:
                if not self._session.default_buffer.text.strip():
                    return Key.INTERRUPT
                default = ""
            except EOFError:
                return Key.END

    async def _leave_on_cancel(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            loop = self._session.app.loop
            if not self._ended and loop is not None:
                loop.call_soon_threadsafe(self._leave)

    def _leave(self) -> None:
        if self._session.app.is_running:
            self._session.app.exit(exception=EOFError)


def open_history(folder: Path | None = None) -> tuple[History, str]:
    """The history of what was typed, in a file that only its owner can read; and what is wrong with it, if anything is.

    Args:
        folder: where it lies; None for the user's folder of such things.
    """
    folder = folder or platformdirs.user_state_path("cede")
    path = folder / "chat_history"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    except OSError as error:
        return InMemoryHistory(), f"what is typed is not kept: {path}: {error.strerror}"
    return FileHistory(str(path)), ""


class SlashCompleter(Completer):
    """Completes commands, the names of settings, and paths."""

    def __init__(self) -> None:
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield what can stand in place of the last word."""
        typed = document.text_before_cursor
        head, space, rest = typed.partition(" ")
        if space and head in COMMANDS and COMMANDS[head].takes == FILE:
            yield from self._paths.get_completions(Document(rest), complete_event)
            return
        word = typed.rpartition(" ")[2]
        for name, about in completions(typed):
            yield Completion(name, -len(word), display_meta=about)


def _keys() -> KeyBindings:
    """Enter sends, unless a backslash stands before it; Alt-Enter begins a line."""
    keys = KeyBindings()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.char_before_cursor == "\\":
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys
