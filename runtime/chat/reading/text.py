"""Text up to a marker, and frames of calls between markers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.chat.parts import TextPart
from runtime.chat.reading.source import WHITESPACE

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.chat.parts import Part
    from runtime.chat.reading.source import Reading, Source


class Markers:
    """Markers to look for; none of them may begin another."""

    def __init__(self, *markers: str) -> None:
        self._markers = markers
        self._firsts = re.compile("|".join(sorted({re.escape(marker[0]) for marker in markers})))
        self._pattern = re.compile("|".join(map(re.escape, markers)))
        self._longest = max(map(len, markers))

    def find(self, source: Source) -> re.Match[str] | None:
        """Find the first marker in what was not read yet."""
        return self._pattern.search(source.text, source.at)

    def certain(self, source: Source) -> int:
        """Return the index up to which the unread text holds no marker, whatever follows."""
        end = len(source.text)
        for first in self._firsts.finditer(source.text, max(source.at, end - self._longest + 1)):
            if any(marker.startswith(source.text[first.start() :]) for marker in self._markers):
                return first.start()
        return end


@dataclass(frozen=True, slots=True)
class Found:
    """A marker that was read, and the whitespace before it, which means nothing if it is one."""

    marker: str
    spaces: str


def text_until(source: Source, markers: Markers, part: Callable[[str], Part] = TextPart) -> Reading[Found | None]:
    """Read text as parts up to a marker, which is read, too.  Whitespace next to markers is dropped.

    Returns:
        What was found; None where the answer has ended.
    """
    while (yield from source.more()):
        match = markers.find(source)
        end = match.start() if match else len(source.text) if source.ended else markers.certain(source)
        chunk = source.take(end)
        body = chunk.rstrip(WHITESPACE)
        if body:
            lead = "".join(source.spaces)
            yield part((lead + body).lstrip(WHITESPACE) if source.after_marker else lead + body)
            source.spaces = [chunk[len(body) :]]
            source.after_marker = False
        else:
            source.spaces.append(chunk)
        if match:
            source.take(match.end())
            return Found(match[0], drop_spaces(source))
        if source.at < len(source.text):
            yield None  # what is left may begin a marker
    if not source.after_marker and (spaces := drop_spaces(source)):
        yield part(spaces)
    return None


def plain_text(source: Source) -> Reading[None]:
    """Read the rest of an answer as text."""
    while (yield from source.more()):
        text = "".join(source.spaces) + source.take(len(source.text))
        source.spaces.clear()
        if source.after_marker:
            text = text.lstrip(WHITESPACE)
        if text:
            source.after_marker = False
            yield TextPart(text)
    if source.spaces:
        yield TextPart("".join(source.spaces))


def drop_spaces(source: Source) -> str:
    """Forget the whitespace that was read last, and return it; a marker stands behind it."""
    spaces = "".join(source.spaces)
    source.spaces.clear()
    source.after_marker = True
    return spaces


@dataclass(frozen=True, slots=True)
class Raw:
    """More of a text whose whitespace counts.

    Attributes:
        text: that came.
        marker: behind it; empty where more is to come.
        last: nothing follows.
    """

    text: str
    marker: str
    last: bool


def raw_until(source: Source, markers: Markers) -> Reading[Raw]:
    """Read what came of a text, and the marker behind it, if that came, too.

    What the answer's end leaves of a marker is read, and no part of the text.
    """
    while True:
        match = markers.find(source)
        end = match.start() if match else markers.certain(source)
        if match or end > source.at or source.ended:
            text = source.take(end)
            if match:
                source.take(match.end())
            elif source.ended:
                source.take(len(source.text))
            return Raw(text, match[0] if match else "", source.ended and source.at == len(source.text))
        yield None


def not_a_call(source: Source, found: Found) -> Reading[None]:
    """Give back as text what was recorded, from a marker on, and turned out to be none.

    What a limit has cut off may have become one, and is left out.
    """
    text = found.spaces + found.marker + source.recorded()
    if source.starved and source.cut:
        source.take(len(source.text))
        return
    body = text.rstrip(WHITESPACE)
    if body:
        yield TextPart(body)
        source.after_marker = False
    source.spaces = [text[len(body) :]]


def read_sections(
    source: Source, section: Markers, call: str, end: str, read_call: Callable[[], Reading[bool]]
) -> Reading[None]:
    """Read an answer with such frames in it, to its end.

    Args:
        source: at the answer's beginning.
        section: the marker before all calls.
        call: the marker before each.
        end: the marker behind all calls.
        read_call: reads one from behind its marker on, and returns whether it began.
    """
    while (found := (yield from text_until(source, section))) is not None:
        source.record()
        yield from source.skip_spaces()
        while (yield from source.accept(call)):
            if not (yield from read_call()):
                break
            found = Found("", "")
            source.record()
            yield from source.skip_spaces()
        else:
            if not found.marker:
                yield from source.close(end)
                source.recorded()
                continue
        yield from not_a_call(source, found)
