"""Lines as they are typed; all keys are there before the first is read, which no terminal promises."""

from __future__ import annotations

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from web.commands.chat.prompt import Key, Prompt


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("one\r", "one"),
        ("one\x1b\rtwo\r", "one\ntwo"),  # Alt-Enter
        ("one\\\rtwo\r", "one\ntwo"),
        ("\x03", Key.INTERRUPT),
        ("\x04", Key.END),
    ],
)
async def test_what_is_typed_is_read(keys: str, said: str | Key) -> None:
    with create_pipe_input() as typed, create_app_session(input=typed, output=DummyOutput()):
        typed.send_text(keys)
        assert await Prompt(InMemoryHistory()).read() == said
