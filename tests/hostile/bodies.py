"""Request bodies that no client in its right mind sends, each fixed by one integer.

A body begins as one that is in order: its operation's example, with some fields of the declared schema.  Then it is of
one kind: left so, with values at its bounds; *wrong*, with some values anywhere in it of another type, out of bounds,
null, gone or doubled; *odd*, with fields that no schema has; *spoilt* by a value that is no JSON; *torn*, its bytes cut
short, doubled, in another encoding; or under another *content type*.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.fakes.operations import OPERATIONS
from tests.hostile.fitting import Fitting, words
from tests.hostile.values import MODEST, OBJECTS, SPOILERS, STRINGS, Json, anything, copied, written
from web.generation.openai_format.schemas import HINTS, UNSUPPORTED
from web.openapi.operations import Operation
from web.process.limits import MAX_UNKNOWN_FIELDS

WITH_BODY = {operation.path: operation for operation in OPERATIONS if operation.body is not None}
FITTINGS = {
    path: Fitting(operation.body.model_json_schema()) for path, operation in WITH_BODY.items() if operation.body
}
KINDS = {"in order": 30, "wrong": 42, "odd": 8, "spoilt": 8, "torn": 8, "of another type": 4}
"""How many of a hundred bodies are of each kind."""

CONTENT_TYPES = (
    *("text/plain", "", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonx"),
    *("application/json; charset=utf-16", "APPLICATION/JSON", "application/json, text/plain", "x" * 4000),
)
SWAPS: tuple[object, ...] = (None, True, 0, -1, 1.5, 10**30, "", "x", [], {}, [None], [[]], {"a": 1}, ["x"])
"""A value of each JSON type, and of some forms of it, to stand where others are declared."""


@dataclass(frozen=True, slots=True)
class HostileBody:
    """A POST.

    Attributes:
        what: by which it can be drawn again: `python -m tests.live.hostile --replay 'body 17'`.
        kind: what is wrong with it.
        operation: that it is for.
        path: to which it goes.
        raw: its bytes.
        content_type: as its header says; empty for none.
    """

    what: str
    kind: str
    operation: Operation
    path: str
    raw: bytes
    content_type: str = "application/json"

    def __str__(self) -> str:
        """Say what is wrong with it, and how it begins."""
        size = f"{len(self.raw)} bytes of {self.content_type[:40]!r}"
        return f"{self.what!r} ({self.kind}), {size} to {self.path}: {self.raw[:300]!r}"


def filled(path: str, name: str = "x") -> str:
    """Return a path with something in place of its parameters."""
    return re.sub(r"\{\w+\}", name, path)


def draw_body(number: int) -> HostileBody:
    """Return the body of that number; the same in every process."""
    dice = random.Random(f"hostile body/{number}")
    operation = dice.choice(list(WITH_BODY.values()))
    (kind,) = dice.choices(list(KINDS), list(KINDS.values()))
    body = draw_body_of(dice, operation)
    content_type = "application/json"
    match kind:
        case "wrong":
            for _ in range(dice.choice([1, 1, 1, 2, 4])):
                _spoil(dice, body)
        case "odd":
            names = [*HINTS, *UNSUPPORTED, *STRINGS, "x" * 300]
            body |= {name: anything(dice) for name in dice.choices(names, k=dice.choice([1, 3]))}
            if dice.random() < 0.3:
                body |= {f"unknown {place}": 0 for place in range(dice.choice([MAX_UNKNOWN_FIELDS + 1, 3000]))}
        case "spoilt":
            holder, key = dice.choice(list(_places(body)))
            holder[key] = dice.choice(SPOILERS)
        case "of another type":
            content_type = dice.choice(CONTENT_TYPES)
    raw = _torn(dice, written(body)) if kind == "torn" else written(body)
    return HostileBody(f"body {number}", kind, operation, filled(operation.path), raw, content_type)


def swapped(operation: Operation) -> Iterator[HostileBody]:
    """Yield bodies in which one value, anywhere in those that are in order, is of another JSON type, or is gone."""
    fitting = FITTINGS[operation.path]
    dice = random.Random(f"hostile swaps/{operation.path}")
    for name in fitting.names():
        for value in (*SWAPS, fitting.draw(dice, name)):
            yield _swap(operation, f"{name}", dict(operation.example or {}) | {name: value})
    for place in range(40):
        for swap in SWAPS:
            body = draw_body_of(random.Random(f"{operation.path}/{place}"), operation)
            holder, key = random.Random(place).choice(list(_places(body)))
            holder[key] = copied(swap)
            yield _swap(operation, f"{key}", body)


def _swap(operation: Operation, what: str, body: Json) -> HostileBody:
    return HostileBody(f"swap of {what}", "wrong", operation, filled(operation.path), written(body))


# --- bodies ---------------------------------------------------------------------------------------------------------


def draw_body_of(dice: Random, operation: Operation) -> Json:
    """Return a body that is in order: the operation's example with some more fields that fit."""
    fitting = FITTINGS[operation.path]
    body: Json = dict(operation.example or {})
    names = fitting.names()
    for name in dice.sample(names, k=min(len(names), dice.choice([0, 1, 2, 3, 5, 12]))):
        body[name] = fitting.draw(dice, name)
    if dice.random() < 0.5 and "messages" in body:
        roles = ["user", "assistant", "system"]
        body["messages"] = [{"role": dice.choice(roles), "content": words(dice, 9)} for _ in range(dice.randint(1, 4))]
    _limit(dice, fitting, body)
    return copied(body)


def _limit(dice: Random, fitting: Fitting, body: Json) -> None:
    """Let most answers be short: what is tried is what comes before them."""
    if dice.random() < 0.05:
        return
    tokens = dice.choice([1, 2, 2, 8])
    if "max_output_tokens" in fitting.names():
        body["max_output_tokens"] = tokens
    elif "max_tokens" in fitting.names():
        body["max_tokens"] = tokens
        for name in ("max_completion_tokens", "n_predict"):
            if dice.random() < 0.7:  # else the two differ
                body.pop(name, None)
    elif "options" in fitting.names():
        options = body.get("options")
        body["options"] = (options if isinstance(options, dict) else {}) | {"num_predict": tokens}


def _places(value: object) -> Iterator[tuple[Any, Any]]:
    """Yield each place in a body, at all depths: its container, and its key or index there."""
    if isinstance(value, dict):
        for name, part in list(value.items()):
            yield value, name
            yield from _places(part)
    elif isinstance(value, list):
        for index, part in enumerate(value[:20]):
            yield value, index
            yield from _places(part)


def _spoil(dice: Random, body: Json) -> None:
    """Make one value somewhere in the body a wrong one."""
    places = list(_places(body))
    if not places:
        return
    holder, key = dice.choice(places)
    way = dice.random()
    if way < 0.1:
        del holder[key]
    elif way < 0.45:
        holder[key] = copied(dice.choice(SWAPS))
    elif way < 0.55:
        holder[key] = [holder[key], copied(holder[key])]
    elif way < 0.65:
        holder[key] = copied(dice.choice(OBJECTS))
    else:
        holder[key] = copied(anything(dice))


def _torn(dice: Random, raw: bytes) -> bytes:
    """Return the same, no longer quite JSON, or not quite this JSON."""
    middle = dice.randrange(len(raw))
    ways: list[Callable[[], bytes]] = [
        lambda: raw[:middle],
        lambda: raw[:middle] + dice.choice([b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\0"]) + raw[middle:],
        lambda: b'{"n":2,"stream":true,"max_tokens":1,' + raw[1:],  # keys twice
        lambda: raw[:-1] + b',"prompt":"a","prompt":["b"],"messages":[]}',
        lambda: raw + dice.choice([b"}", b"{}", b"\0", b" " * MODEST, b"//"]),
        lambda: b"\xef\xbb\xbf" + raw,
        lambda: raw.decode().encode("utf-16"),
        lambda: b"[" + raw + b"]",
        lambda: dice.choice([b"", b"null", b"5", b'"x"', b"[]", b"{}", b"\0" * 100, b"-", b"1e999999", b"[" * MODEST]),
        lambda: raw.replace(b'"', b"'"),
    ]
    return dice.choice(ways)()
