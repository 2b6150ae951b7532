"""A stream and its copy: the stream goes on whatever becomes of the copy, and only a whole answer is kept."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from actors.core.generation import Failed
from actors.generating.unread import Unread
from runtime.errors import StepFailed
from tests.fakes.engine import chat, say, token
from web.generation.keeping import KeepingWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.core.generation import Event
    from actors.generating.unread import Backlog

ASKED = chat(stream=True)


class Kept:
    """What was given to be stored."""

    def __init__(self) -> None:
        self.answers: list[str] = []

    async def __call__(self, content: bytes) -> None:
        """Note an answer."""
        self.answers.append(json.loads(content)["choices"][0]["message"]["content"])


def streamed(events: Sequence[Event], backlog: Backlog) -> tuple[KeepingWriter, str]:
    """Return a writer that has written these events, and what it said."""
    writer = KeepingWriter(ASKED.writer(), ASKED.collector(64), backlog)
    data = b"".join(piece for event in events for piece in writer.write(event))
    if writer.finished:
        closing = writer.closing()
        data += closing if isinstance(closing, bytes) else b"".join(closing)
    chunks = [json.loads(line) for line in data.decode().split("data: ") if line.startswith("{")]
    return writer, "".join(c["delta"].get("content") or "" for chunk in chunks for c in chunk.get("choices", ()))


async def test_what_is_kept_is_what_was_streamed() -> None:
    kept, unread = Kept(), Unread()
    with unread.backlog("copy") as backlog:
        writer, said = streamed(say("a", "bc"), backlog)
        assert unread.statistics().bytes > 0
        await writer.keep(kept)
        assert kept.answers == [said] == ["abc"]


@pytest.mark.parametrize("cut_after", [0, 1, 2])
async def test_a_copy_that_takes_too_much_is_given_up_and_the_stream_goes_on(cut_after: int) -> None:
    events, kept, unread = say("a", "b" * 50, "c"), Kept(), Unread()
    with unread.backlog("copy") as backlog:
        writer, _ = streamed(events[:cut_after], backlog)
        backlog.on_cut and backlog.on_cut(StepFailed("the ledger cuts it"))
        said = b"".join(piece for event in events[cut_after:] for piece in writer.write(event))
        assert (writer.finished, writer.failed) == (True, False)
        assert b'"c"' in said
        await writer.keep(kept)
    assert kept.answers == []


async def test_the_ledger_cuts_the_copy_alone() -> None:
    kept, unread = Kept(), Unread(each=40)
    with unread.backlog("copy") as backlog:
        writer, said = streamed(say("a", "b" * 50, "c"), backlog)
        await writer.keep(kept)
    assert (said, kept.answers) == ("a" + "b" * 50 + "c", [])
    assert (unread.statistics().cut, unread.statistics().bytes) == (1, 0)


async def test_nothing_is_kept_of_an_answer_that_failed() -> None:
    kept = Kept()
    with Unread().backlog("copy") as backlog:
        writer, said = streamed([token("a"), Failed(0, StepFailed("no"))], backlog)
        assert (writer.failed, said) == (True, "a")
        await writer.keep(kept)
    assert kept.answers == []
