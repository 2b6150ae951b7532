"""Answers of gpt-oss, in OpenAI's harmony: messages in channels, for what is thought, called and said.

<|channel|>analysis<|message|>So.<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json
<|message|>{}<|call|>
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from runtime.chat.lark import literal, one_of
from runtime.chat.parts import ReasoningPart, TextPart
from runtime.chat.reading.json_calls import read_arguments
from runtime.chat.reading.text import Found, Markers, drop_spaces, not_a_call, raw_until, text_until
from runtime.chat.reasoning import Thought

if TYPE_CHECKING:
    from runtime.chat.conversation import Tool
    from runtime.chat.formats.format import Calls
    from runtime.chat.lark import Lark
    from runtime.chat.reading.source import Reading, Source

START = "<|start|>"
CHANNEL = "<|channel|>"
CONSTRAIN = "<|constrain|>"
MESSAGE = "<|message|>"
END = "<|end|>"
RETURN = "<|return|>"
CALL = "<|call|>"

ANALYSIS = "analysis"
LONGEST_HEADER = 1024
"""Characters between the beginning of a message and its text."""

THOUGHT = Thought(f"{CHANNEL}{ANALYSIS}{MESSAGE}", END, framed=True)
"""How what is thought is marked; there may be several such messages."""

_BEGINNINGS = Markers(START, CHANNEL)
_ENDS = Markers(END, RETURN, CALL, START)
_HEADER_END = Markers(MESSAGE)
_CHANNEL_NAME = re.compile(re.escape(CHANNEL) + r"\s*(\w+)")
_TO = "to=functions."
_RECIPIENT = re.compile(re.escape(_TO) + r"([^\s<]+)")


class Harmony:
    """Messages in channels.  An answer begins behind `<|start|>assistant`, in the middle of a message's header."""

    markers = (START, CHANNEL, CONSTRAIN, MESSAGE, END, RETURN, CALL)

    def read(self, source: Source, calls: Calls) -> Reading[None]:
        """Read an answer; see `ToolFormat`.  What has no header is text."""
        yield from source.skip_spaces(source.spaces)
        begun = yield from source.accept(CHANNEL, _TO)
        found = Found(begun, drop_spaces(source)) if begun else (yield from text_until(source, _BEGINNINGS))
        while found is not None:
            found = (yield from _read_message(source, found, calls)) or (yield from text_until(source, _BEGINNINGS))

    def answer(self, lark: Lark, calls: Calls) -> str:
        """Return an expression for an answer; see `ToolFormat`."""
        return self.saying(lark, calls, None)

    def saying(self, lark: Lark, calls: Calls, text: str | None) -> str:
        """Return an expression for an answer whose text is that of an expression; None for any."""
        channel, message = lark.marker(CHANNEL), lark.marker(MESSAGE)
        again = lark.rule("again", f'{lark.marker(START)} "assistant"')
        thought = f'({channel} "{ANALYSIS}" {message} {lark.until(END)} {again})?'
        final = f'{channel} "final" {message} {text or lark.without()}'
        if not calls.bound:
            return f"{thought} {final}"
        call = one_of([_call(lark, tool) for tool in calls.tools])
        if calls.required:
            return f"{thought} {call}"
        preamble = f'({channel} "commentary" {message} {lark.until(END)} {again})?'
        return f"{thought} ({final} | {preamble} {call})"


def _read_message(source: Source, found: Found, calls: Calls) -> Reading[Found | None]:
    """Read a message from the beginning of its header on; return what begins the next, if it was read."""
    source.record()
    header = yield from _read_header(source)
    if header is None:
        yield from not_a_call(source, found)
        return None
    source.recorded()
    drop_spaces(source)
    header = found.marker + header
    channel, recipient = _CHANNEL_NAME.search(header), _RECIPIENT.search(header)
    if recipient and calls.tools:
        source.record()
        if (yield from read_arguments(source, recipient[1])) is None:
            yield from not_a_call(source, Found("", ""))
        else:
            yield from source.close(CALL, END)
        return None
    thinks = channel is not None and channel[1] == ANALYSIS
    ended = yield from text_until(source, _ENDS, ReasoningPart if thinks else TextPart)
    return ended if ended and ended.marker == START else None


def _read_header(source: Source) -> Reading[str | None]:
    """Read a header up to the text of its message; return None where none follows."""
    pieces, length = [], 0
    while length <= LONGEST_HEADER:
        piece = yield from raw_until(source, _HEADER_END)
        pieces.append(piece.text)
        length += len(piece.text)
        if piece.marker:
            return "".join(pieces)
        if piece.last:
            break
    return None


def _call(lark: Lark, tool: Tool) -> str:
    head = f"{lark.marker(CHANNEL)} {literal(f'commentary {_TO}{tool.name}')} {lark.spaces()}"
    return f'{head} ({lark.marker(CONSTRAIN)}? "json")? {lark.marker(MESSAGE)} {lark.arguments(tool)}'
