"""Grammar of an output, as the client or a tool's format says it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field


class GrammarKind(enum.StrEnum):
    """The language that a grammar is written in; `ANY` has no source, for any text."""

    ANY = "any"

    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    LARK = "lark"  # llguidance's dialect
    GBNF = "gbnf"  # llama.cpp's
    CHOICE = "choice"  # a JSON array of the texts that there are


@dataclass(frozen=True, slots=True)
class ThoughtBudget:
    """Budget of thought at the beginning of an output.

    Attributes:
        tokens: of thought at most, without those of its markers.
        opening: the text that begins it, the spelling of tokens included.
        closing: the text that ends it.
        begun: the output begins within it.
        again: the model may think more than once, wherever `opening` stands; all of it counts together.
    """

    tokens: int
    opening: str
    closing: str
    begun: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True)
class Grammar:
    """A grammar in source form; `{"type": "object"}` as a schema is OpenAI's JSON mode.

    Attributes:
        kind: its language.
        source: its text; a schema as JSON.
        param: the field of the request's body that it stands in, for errors.
        embedded: what `@name` stands for in the source of a Lark grammar, by names: grammars of any language within one
            that describes, say, what a model thinks before it answers, or how it writes a call.
        budget: of what is thought, which the grammar describes without a bound; None for no bound.
    """

    kind: GrammarKind
    source: str
    param: str | None = field(default=None, compare=False)
    embedded: tuple[tuple[str, Grammar], ...] = ()
    budget: ThoughtBudget | None = None

    @property
    def size(self) -> int:
        """Characters of its source, and of what is embedded."""
        return len(self.source) + sum(embedded.size for _, embedded in self.embedded)
