"""JSON values that no client in its right mind sends, and how they are written.

What `json.dumps` could not write, such as `1e999` or half a surrogate pair, is a text that stands for its bytes.
Those of `SPOILERS` make any text around them no JSON, or none that a server has to take; all others can be read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

from web.process.limits import MAX_NAME

Json = dict[str, Any]

MODEST = 40_000
"""Characters or elements, at most, of what is drawn at random."""

_RAW = re.compile(rb'"@raw ([0-9a-f]*)@"')


def raw(text: bytes) -> str:
    """Return what stands for these bytes until the body is `written`."""
    return f"@raw {text.hex()}@"


def nested(depth: int, opening: bytes = b"[", closing: bytes = b"]") -> str:
    """Return so many arrays, or other things, in one another."""
    return raw(opening * depth + (b"0" if opening != b"[" else b"") + closing * depth)


def written(value: object) -> bytes:
    """Return the bytes of a value, with `raw` ones in their places."""
    return _RAW.sub(lambda found: bytes.fromhex(found[1].decode()), json.dumps(value).encode())


T = TypeVar("T")


def copied(value: T) -> T:
    """Return the same value in containers of its own, each in one place only."""
    made: Any = value
    if isinstance(value, dict):
        made = {name: copied(part) for name, part in value.items()}
    elif isinstance(value, list):
        made = [copied(part) for part in value]
    whole: T = made
    return whole


STRINGS = (
    *("", "\0", "\r\nx-forged: 1", "\x1b[2J", "\u2028\u2029", "\ufeff", "\u202e", "a\u0301", "\U0010ffff", "\x7f"),
    *("../../etc/passwd", "{{ 7 * 7 }}", "{% for x in range(9) %}", "${jndi:x}", "%s%n", "'; --", "<script>"),
    *("nan", "-1", "null", "true", "__class__", "<|im_start|>", "<tool_call>", "<think>", "</s>", "[TOOL_CALLS]"),
)
NUMBERS = (
    *(0, 1, -1, 2, 16, 17, 20, 21, 255, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64, -(10**19)),
    *(0.0, 0.5, 1.0, 1.0000001, 2.0, -2.0, 100.0, 1e-9, 5e-324, 1e308, -1e308),
    *(raw(b"-0"), raw(b"-0.0"), raw(b"1E+2"), raw(b"1e-999"), raw(b"1" + b"0" * 400), raw(b"0." + b"3" * 400)),
)
OBJECTS: tuple[object, ...] = (
    *([], {}, [[]], [{}], {"": None}, [None], {"type": None}, {"type": "text"}, {"type": "function", "function": {}}),
    *({"role": "user", "content": None}, [{"type": "image_url", "image_url": {"url": "http://[::1]/"}}], {"$ref": "#"}),
    *(raw(b'{"a":1,"a":[]}'), raw(b'{"type":"text","type":"function"}')),
)
SPOILERS = (
    *(raw(b"NaN"), raw(b"Infinity"), raw(b"-Infinity"), raw(b"1e999"), raw(b"-1e999"), raw(b"1" + b"0" * 9000)),
    *(raw(b'"\\ud800"'), raw(b'"\\udfff\\ud800"'), raw(b'"\xff\xfe"'), raw(b'"\xed\xa0\x80"'), raw(b'"\xc0\x80"')),
    *(raw(b'"\\u12"'), raw(b'"\\x41"'), raw(b'"a\nb"'), raw(b'"\0"'), raw(b"'a'"), raw(b'"a')),
    *(raw(b"007"), raw(b"+1"), raw(b".5"), raw(b"1."), raw(b"0x10"), raw(b"1_000"), raw(b"1e"), raw(b"--1")),
    *(raw(b"[1,]"), raw(b'{"a":1,}'), raw(b'{"a"}'), raw(b"{1:2}"), raw(b"[1 2]"), raw(b"True"), raw(b"undefined")),
    *(raw(b"/**/1"), raw(b"1//\n"), raw(b""), raw(b"]"), raw(b"}"), nested(10_000), nested(MODEST, b'{"a":', b"}")),
)


def anything(dice: Random) -> object:
    """Return any JSON value at all that can be read."""
    size = dice.choice([1, 2, 17, MAX_NAME, MAX_NAME + 1, 1025, 4096, MODEST])
    makers: list[Callable[[], object]] = [
        lambda: dice.choice(STRINGS),
        lambda: dice.choice(NUMBERS),
        lambda: dice.choice(OBJECTS),
        lambda: dice.choice([None, True, False]),
        lambda: dice.choice(STRINGS[1:]) * (size // 4),
        lambda: "x" * size,
        lambda: [dice.choice(STRINGS)] * (size // 4),
        lambda: [dice.choice(NUMBERS) for _ in range(min(size, 300))],
        lambda: {f"{dice.choice(STRINGS)}{number}": dice.choice(NUMBERS) for number in range(min(size, 1200))},
        lambda: nested(dice.choice([1, 20, 100, 127]), *dice.choice([(b"[", b"]"), (b'{"a":', b"}")])),
        lambda: [dice.choice(STRINGS), dice.choice(NUMBERS), None, [], {}],
        lambda: [{"type": "text", "text": "x" * min(size, 200)}] * min(size, 200),
    ]
    return dice.choice(makers)()
