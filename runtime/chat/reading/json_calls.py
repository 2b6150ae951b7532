"""Calls that are written as JSON objects, `{"name": "f", "arguments": {"a": 1}}`, or as a list of them."""

from __future__ import annotations

from dataclasses import dataclass
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
    """Call that is being read, as far as it is known."""

    name: str = ""
    id: str | None = None
    begun: bool = False
    held: str | None = None  # arguments that came before the name


def read_call(source: Source, names: Collection[str] | None = None) -> Reading[bool]:
    """Read a call.  Until its name is known nothing is certain, so it is recorded by the caller until then.

    It is whole once its arguments are, whatever becomes of the object around them.

    Args:
        source: at the object.
        names: what it may call; None for anything.

    Returns:
        Whether it began; if not, what was read is no call.
    """
    call = _Call()
    whole = yield from _members(source, call, names)
    if whole and call.name and not call.begun:
        yield from _whole_call(source, call, "{}")
    return call.begun


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
    if begun and (text := source.recorded()) and not source.cut:
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
        if call.held is not None:
            yield from _whole_call(source, call, call.held)
        return True
    if key == "id" and first == '"' and not call.begun:
        call.id = yield from read_string(source)
        return call.id is not None
    if key not in _ARGUMENTS or call.begun:
        return (yield from read_value(source))
    if call.name:
        whole = yield from read_arguments(source, call.name, call.id)
        call.begun = whole is not None
        return bool(whole)
    held = []
    for part in _arguments(source, 0):
        if part is None:
            yield None
        elif isinstance(part, CallArguments):
            held.append(part.text)
        else:
            call.held = "".join(held)
    return call.held is not None


def read_arguments(source: Source, name: str, call_id: str | None = None) -> Reading[bool | None]:
    """Read a call from its arguments on, as they come, and to its end, if they have one.

    They are an object.  Some models write it as a string; it is undone.  `null` stands for an empty one.

    Args:
        source: at the arguments; what was read of the call is recorded.
        name: of the tool.
        call_id: as the model wrote it, if it did.

    Returns:
        Whether it is whole; None where it did not begin, and what was read is no call.
    """
    whole = None
    for part in _arguments(source, source.calls):
        if part is not None and whole is None:
            source.recorded()
            yield CallStart(source.next_call(), name, call_id)
        if part is not None:
            whole = isinstance(part, CallEnd)
        yield part
    return whole


def _arguments(source: Source, number: int) -> Reading[None]:
    """Read arguments, and yield the end of their call if they have one."""
    first = yield from source.skip_spaces()
    scanner = JsonScanner(repairs=True)
    if first == '"':
        yield from _object_in_string(source, number, scanner)
    elif first == "{":
        while not scanner.done and not scanner.failed and (yield from source.more()):
            end, text = scanner.feed(source.text, source.at)
            source.take(end)
            if text:
                yield CallArguments(number, text)
    elif (yield from source.accept("null")):
        yield CallArguments(number, "{}")
        yield CallEnd(number)
    if scanner.done:
        yield CallEnd(number)


def _object_in_string(source: Source, number: int, scanner: JsonScanner) -> Reading[None]:
    """Read a string that holds an object, which `scanner` follows; without one there is nothing to yield.

    What the string says behind the object, or from where it is no JSON, is read as arguments, too, and breaks the call.
    """
    outer, string = JsonScanner(repairs=True), JsonString()
    begun = broken = False
    while not outer.done and (yield from source.more()):
        said = _string_piece(source, outer, string)
        said = said if begun else said.lstrip()
        if said and not begun and said[0] != "{":
            return
        begun = begun or bool(said)
        end, text = scanner.feed(said, 0)
        rest = said[end:] if broken else said[end:].lstrip()
        broken = broken or bool(rest)
        if text or rest:
            yield CallArguments(number, text + rest)
    scanner.done &= outer.done and not broken


def read_value(source: Source) -> Reading[bool]:
    """Read a JSON value that means nothing; return whether it is one."""
    scanner = JsonScanner(repairs=True)
    while not scanner.done and not scanner.failed:
        if not (yield from source.more()):
            scanner.finish()
            break
        end, _ = scanner.feed(source.text, source.at)
        source.take(end)
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


def _string_piece(source: Source, scanner: JsonScanner, string: JsonString) -> str:
    """Read what came of a string; return what it says."""
    end, written = scanner.feed(source.text, source.at)
    source.take(end)
    return string.feed(written)[1]


def _whole_call(source: Source, call: _Call, arguments: str) -> Reading[None]:
    """Yield a call of which all is known."""
    source.recorded()
    call.begun = True
    number = source.next_call()
    yield from (CallStart(number, call.name, call.id), CallArguments(number, arguments), CallEnd(number))
