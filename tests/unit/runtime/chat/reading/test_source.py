"""Readings: parts as soon as they are certain, nothing lost, at a cost that does not grow."""

from __future__ import annotations

from runtime.chat.parts import TextPart
from runtime.chat.reading.source import Reading, ReadingParser, Source
from runtime.chat.reading.text import Markers, text_until


def shouting(source: Source) -> Reading[None]:
    """Read `<<...>>` as an upper-case text of at most five letters."""
    while (yield from text_until(source, Markers("<<"))):
        word = yield from source.take_until(">", 5)
        yield TextPart((word or "?").upper())
        yield from source.accept(">>", ">!")


def test_what_may_begin_a_marker_is_held_back_and_nothing_else() -> None:
    parser = ReadingParser(shouting)
    given = ["a <", "b <", "<c", ">", "> d ", "e"]
    assert [parser.push(text) for text in given] == [
        [TextPart("a")],
        [TextPart(" <b")],
        [],
        [TextPart("C")],
        [TextPart("d")],
        [TextPart(" e")],
    ]
    assert parser.finish() == []
    assert parser.push("") == []


def test_what_ends_in_between() -> None:
    for text, said in (("<<abc", "?abc"), ("<<abcdefg>>", "?abcdefg>>"), ("<<a>", "A>"), ("<<a>!b", "Ab"), ("<", "<")):
        parser = ReadingParser(shouting)
        parts = [*parser.push(text), *parser.finish()]
        assert "".join(part.text for part in parts if isinstance(part, TextPart)) == said


def test_little_is_held_of_a_long_answer() -> None:
    source: list[Source] = []

    def reading(given: Source) -> Reading[None]:
        source.append(given)
        yield from shouting(given)

    parser = ReadingParser(reading)
    for text in ["words and <words> ", " \n" * 5, "<"] * 1000:
        parser.push(text)
        assert len(source[0].text) < 30
