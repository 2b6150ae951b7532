"""What an output must be, as the client or a tool's format says it."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class GrammarKind(enum.StrEnum):
    """The language that a grammar is written in."""

    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    LARK = "lark"  # llguidance's dialect
    GBNF = "gbnf"  # llama.cpp's


@dataclass(frozen=True, slots=True)
class Grammar:
    """A grammar in source form; `{"type": "object"}` as a schema is OpenAI's JSON mode.

    Attributes:
        kind: its language.
        source: its text; a schema as JSON.
    """

    kind: GrammarKind
    source: str
