"""Calls that are written as JSON objects, `{"name": "f", "arguments": {"a": 1}}`, or as a list of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runtime.chat.parts import CallArguments, CallEnd, CallStart, TextPart
from runtime.chat.reading.json_scanner import JsonScanner
from runtime.chat.reading.json_strings import JsonString

if TYPE_CHECKING:
    from collections.abc import Collection

    from runtime.chat.reading.source import Reading, Source

LONGEST_NAME = 256
"""Characters of a key or of a tool's name; what is longer is none."""

_ARGUMENTS = ("arguments", "parameters")  # Llama's word is the second


@dataclass(slots=True)
class _Call:
    """What is known of a call that is being read."""

    name: str = ""
    id: str | None = None
    number: int | None = None  # once it has begun
    held: list[str] = field(default_factory=list)  # arguments that came before the name


def read_call(source: Source, names: Collection[str] | None = None) -> Reading[bool]:
    """Read a call.  Until its name is known nothing is certain, so it is recorded by the caller until then.

    Args:
        source: at the object.
        names: what it may call; None for anything.

    Returns:
        Whether it began; if not, what was read is no call.
    """
    call = _Call()
    whole = yield from _members(source, call, names)
    if call.number is None and not (whole and call.name):
        return False
    if call.number is None:
        yield from _start(source, call)
        yield CallArguments(_number(call), "".join(call.held) or "{}")
    if whole:
        yield CallEnd(_number(call))
    return True


def read_calls(source: Source, *, opened: bool = False) -> Reading[bool]:
    """Read a JSON list of calls, whose bracket was read if it is `opened`; see `read_call`."""
    if not opened:
        if (yield from source.skip_spaces()) != "[":
            return False
        source.take(source.at + 1)
    begun = False
    while (yield from read_call(source)):
        begun = True
        source.record()
        following = yield from source.skip_spaces()
        if following == "]":
            source.take(source.at + 1)
            source.recorded()
            return True
        if following != ",":
            break
        source.take(source.at + 1)
    if begun and (text := source.recorded()):
        yield TextPart(text)
        source.after_marker = False
    return begun


def _members(source: Source, call: _Call, names: Collection[str] | None) -> Reading[bool]:
    """Read an object's members; return whether it is whole."""
    if (yield from source.skip_spaces()) != "{":
        return False
    source.take(source.at + 1)
    if (yield from source.skip_spaces()) == "}":
        source.take(source.at + 1)
        return True
    while True:
        key = yield from read_string(source)
        if key is None or (yield from source.skip_spaces()) != ":":
            return False
        source.take(source.at + 1)
        if not (yield from _member(source, call, key, names)):
            return False
        following = yield from source.skip_spaces()
        if following not in ("}", ","):
            return False
        source.take(source.at + 1)
        if following == "}":
            return True


def _member(source: Source, call: _Call, key: str, names: Collection[str] | None) -> Reading[bool]:
    """Read the value of a key; return whether it is one."""
    first = yield from source.skip_spaces()
    if key == "name" and not call.name:
        name = yield from read_string(source)
        if not name or (names is not None and name not in names):
            return False
        call.name = name
        if call.held:
            yield from _start(source, call)
            yield CallArguments(_number(call), "".join(call.held))
        return True
    if key == "id" and first == '"' and call.number is None:
        call.id = yield from read_string(source)
        return call.id is not None
    if key not in _ARGUMENTS or call.number is not None:
        return (yield from read_value(source, None))
    if not call.name:
        return (yield from read_value(source, call.held))
    yield from _start(source, call)
    return (yield from read_arguments(source, _number(call)))


def read_arguments(source: Source, number: int) -> Reading[bool]:
    """Read a call's arguments as they come; return whether they are whole.

    Some models write the object as a string; it is undone.  `null` stands for an empty object.
    """
    first = yield from source.skip_spaces()
    if first == '"':
        return (yield from _arguments_in_string(source, number))
    if first == "n" and (yield from source.accept("null")):
        yield CallArguments(number, "{}")
        return True
    return (yield from read_value(source, number))


def read_value(source: Source, into: int | list[str] | None) -> Reading[bool]:
    """Read a JSON value; return whether it is one.

    Args:
        source: at the value.
        into: the number of the call whose arguments it is, a list for what is not certain yet, or None to drop it.
    """
    scanner = JsonScanner()
    while not scanner.done and not scanner.failed:
        if not (yield from source.more()):
            scanner.finish()
            break
        end, text = scanner.feed(source.text, source.at)
        source.take(end)
        if text and isinstance(into, int):
            yield CallArguments(into, text)
        elif isinstance(into, list):
            into.append(text)
    return scanner.done


def read_string(source: Source) -> Reading[str | None]:
    """Read a JSON string of at most `LONGEST_NAME` characters, as it is written; return what it says, or None."""
    if (yield from source.skip_spaces()) != '"':
        return None
    scanner, string = JsonScanner(), JsonString()
    said: list[str] = []
    length = 0
    while not scanner.done:
        if scanner.failed or length > LONGEST_NAME or not (yield from source.more()):
            return None
        start = source.at
        said.append(_string_piece(source, scanner, string))
        length += source.at - start
    return "".join(said) if length <= LONGEST_NAME + 2 else None


def _arguments_in_string(source: Source, number: int) -> Reading[bool]:
    scanner, string = JsonScanner(), JsonString()
    while not scanner.done:
        if scanner.failed or not (yield from source.more()):
            return False
        if text := _string_piece(source, scanner, string):
            yield CallArguments(number, text)
    return True


def _string_piece(source: Source, scanner: JsonScanner, string: JsonString) -> str:
    """Read what came of a string; return what it says."""
    end, written = scanner.feed(source.text, source.at)
    source.take(end)
    return string.feed(written)[1]


def _start(source: Source, call: _Call) -> Reading[None]:
    """Begin the call: from here on nothing that is read is given back as text."""
    source.recorded()
    call.number = source.next_call()
    yield CallStart(call.number, call.name, call.id)


def _number(call: _Call) -> int:
    assert call.number is not None
    return call.number
