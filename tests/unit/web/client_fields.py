"""The fields of client libraries' own types, one at a time, each in a value that a client could send.

A path names the way to a field: `messages[tool].content[text].text` is the text of a part of type `text` in a message
of the role `tool`.
"""

from __future__ import annotations

import hashlib
import itertools
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Required, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from typing_extensions import is_typeddict

CHOOSERS = ("type", "role")
"""Fields that say what an object is; its other fields are looked at for each of their values."""


@dataclass(frozen=True)
class Sent:
    """A value with one field of interest.

    Attributes:
        path: of the field.
        value: of what the walk began with.
        word: stands in that field; None for numbers, switches and words of a fixed set.
    """

    path: str
    value: Any
    word: str | None = None


def word_of(path: str) -> str:
    """Return a word that stands nowhere else."""
    return "zq" + hashlib.blake2b(path.encode(), digest_size=6).hexdigest()


def sent(kind: Any, path: str = "", inside: tuple[Any, ...] = ()) -> Iterator[Sent]:  # noqa: ANN401  of typing's
    """Yield values of a type, each for one of its fields at any depth."""
    origin, args = get_origin(kind), get_args(kind)
    if is_typeddict(kind) or (isinstance(kind, type) and issubclass(kind, BaseModel)):
        yield from _object(kind, path, inside)
    elif origin in (Union, types.UnionType):
        for member in args:
            if member is not type(None):
                yield from sent(member, path, inside)
    elif origin is Literal:
        yield from (Sent(f"{path}={value}", value) for value in args)
    elif args and origin not in (dict, Mapping):
        for inner in sent(args[0], path, inside):
            yield Sent(inner.path, [inner.value], inner.word)
    else:
        yield _leaf(kind, path)


def _leaf(kind: Any, path: str) -> Sent:  # noqa: ANN401
    word = word_of(path)
    if kind in (bool, int, float):
        return Sent(path, kind(1))
    if kind is not str:  # any JSON, such as a schema
        return Sent(path, {"type": "object", "properties": {word: {"type": "string"}}}, word)
    if path.endswith((".role", ".type")):  # that of messages which may have most, and of tools
        return Sent(path, "assistant" if path.endswith("role") else "function")
    return Sent(path, f'{{"a": "{word}"}}' if path.endswith(".arguments") else word, word)  # those of a call are JSON


def _object(kind: Any, path: str, inside: tuple[Any, ...]) -> Iterator[Sent]:  # noqa: ANN401  a TypedDict or a model
    if kind in inside:
        return
    fields, required = _fields(kind)
    choosers = [name for name in CHOOSERS if get_origin(fields.get(name)) is Literal]
    within = (*inside, kind)
    for choice in itertools.product(*(get_args(fields[name]) for name in choosers)):
        chosen = dict(zip(choosers, choice, strict=True))
        here = f"{path}[{choice[0]}]." if choice else f"{path}." if path else ""
        for name in required - chosen.keys():
            chosen[name] = next(iter(sent(fields[name], here + name, within))).value
        for name in fields.keys() - set(choosers):
            for field in sent(fields[name], here + name, within):
                yield Sent(field.path, {**chosen, name: field.value}, field.word)


def _fields(kind: Any) -> tuple[dict[str, Any], frozenset[str]]:  # noqa: ANN401
    """Return the types of a type's fields, and which have to be there."""
    if is_typeddict(kind):
        hints = get_type_hints(kind, include_extras=True)
        required = frozenset(name for name, hint in hints.items() if get_origin(hint) is Required)
        return get_type_hints(kind), required | kind.__required_keys__ & {n for n in hints if n in CHOOSERS}
    fields = {field.alias or name: field.annotation for name, field in kind.model_fields.items()}
    return fields, frozenset(field.alias or name for name, field in kind.model_fields.items() if field.is_required())
