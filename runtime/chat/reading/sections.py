"""Several calls in one frame: a marker, each call with a marker of its own, and a marker at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.chat.reading.text import Found, Markers, not_a_call, text_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.chat.reading.source import Reading, Source


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
