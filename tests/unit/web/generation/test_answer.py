"""An answer that is streamed and gathered at once: the stream goes on whatever becomes of what is gathered."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pytest

from actors.core.generation import Event, Failed
from actors.generating.unread import Backlog, Unread
from runtime.chat.parts import CallArguments, CallStart
from runtime.errors import StepFailed
from tests.fakes.engine import chat, say, token
from web.bodies.json_encoding import iter_json
from web.generation.answer import Formatter, Gathered

ASKED = chat(stream=True)


def kept(formatter: Formatter) -> str | None:
    """Return what is there to be stored."""
    if not formatter.is_whole:
        return None
    said: str = json.loads(b"".join(iter_json(formatter.result())))["choices"][0]["message"]["content"]
    return said


def streamed(events: Sequence[Event], backlog: Backlog) -> tuple[Formatter, str]:
    """Return a formatter that has written these events, and what it said."""
    writer = ASKED.formatter(64)
    writer.set_size, backlog.on_cut = backlog.set_size, writer.cut
    data = b"".join(piece for event in events for piece in writer.write(event))
    if writer.finished:
        closing = writer.closing()
        data += closing if isinstance(closing, bytes) else b"".join(closing)
    chunks = [json.loads(line) for line in data.decode().split("data: ") if line.startswith("{")]
    return writer, "".join(c["delta"].get("content") or "" for chunk in chunks for c in chunk.get("choices", ()))


async def test_what_is_kept_is_what_was_streamed() -> None:
    unread = Unread()
    with unread.backlog("copy") as backlog:
        writer, said = streamed(say("a", "bc"), backlog)
        assert unread.statistics().bytes > 0
        assert kept(writer) == said == "abc"


@pytest.mark.parametrize("cut_after", [0, 1, 2])
async def test_a_copy_that_takes_too_much_is_given_up_and_the_stream_goes_on(cut_after: int) -> None:
    events, unread = say("a", "b" * 50, "c"), Unread()
    with unread.backlog("copy") as backlog:
        writer, _ = streamed(events[:cut_after], backlog)
        backlog.on_cut and backlog.on_cut(StepFailed("the ledger cuts it"))
        said = b"".join(piece for event in events[cut_after:] for piece in writer.write(event))
        assert (writer.finished, writer.failed) == (True, False)
        assert b'"c"' in said
        assert kept(writer) is None


def test_arguments_that_are_an_object_count_in_bytes() -> None:
    gathered = Gathered(64, objects=True)
    gathered.add(token(""), [CallStart(0, "f"), CallArguments(0, '{"a":"日"}')])
    assert gathered.grown() == len("f") + len('{"a":"日"}'.encode())


class Unwalked(list[Gathered]):
    """What several generations have said, which nobody is to look through for one event."""

    def __iter__(self) -> Iterator[Gathered]:
        """Refuse."""
        raise AssertionError("an event takes as long as there are generations")


def test_an_event_costs_no_more_beside_many_other_generations() -> None:
    alone, several = chat().formatter(64), chat(n=9).formatter(64)
    several.gathered = Unwalked(several.gathered)
    for index in range(9):
        several.add(token("abc", index=index))
    alone.add(token("abc"))
    assert len(several) == 9 * len(alone) > 0


async def test_the_ledger_cuts_the_copy_alone() -> None:
    unread = Unread(each=40)
    with unread.backlog("copy") as backlog:
        writer, said = streamed(say("a", "b" * 50, "c"), backlog)
    assert (said, kept(writer)) == ("a" + "b" * 50 + "c", None)
    assert (unread.statistics().cut, unread.statistics().bytes) == (1, 0)


async def test_nothing_is_kept_of_an_answer_that_failed() -> None:
    with Unread().backlog("copy") as backlog:
        writer, said = streamed([token("a"), Failed(0, StepFailed("no"))], backlog)
        assert (writer.failed, said) == (True, "a")
        assert kept(writer) is None
