"""What an output must be, as the client or a tool's format says it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field


class GrammarKind(enum.StrEnum):
    """The language that a grammar is written in."""

    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    LARK = "lark"  # llguidance's dialect
    GBNF = "gbnf"  # llama.cpp's
    CHOICE = "choice"  # a JSON array of the texts that there are


@dataclass(frozen=True, slots=True)
class Grammar:
    """A grammar in source form; `{"type": "object"}` as a schema is OpenAI's JSON mode.

    Attributes:
        kind: its language.
        source: its text; a schema as JSON.
        param: the field of the request's body that it stands in, for errors.
        embedded: what `@name` stands for in the source of a Lark grammar, by names: grammars of any language within one
            that describes, say, what a model thinks before it answers, or how it writes a call.
    """

    kind: GrammarKind
    source: str
    param: str | None = field(default=None, compare=False)
    embedded: tuple[tuple[str, Grammar], ...] = ()
