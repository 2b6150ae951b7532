"""Grammars of answers, in llguidance's dialect of Lark, which knows special tokens and JSON schemas."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from runtime.chat.reading.json_strings import INPUT
from runtime.grammar.grammar import Grammar, GrammarKind
from runtime.grammar.schemas import prepare_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runtime.chat.conversation import Tool


MOST_SPACES = 40
"""Whitespace in a row: a small model that has nothing better to say may go on with it for ever."""


class Lark:
    """A grammar that grows rule by rule.

    Args:
        added_tokens: the ids of the tokens that stand for themselves, special or not, by their spelling: no regular
            expression matches them.
    """

    def __init__(self, added_tokens: Mapping[str, int]) -> None:
        self._added_tokens = added_tokens
        self._rules: dict[str, str] = {}
        self._never: tuple[str, ...] = ()
        self._embedded: dict[str, Grammar] = {}

    def never(self, marker: str) -> None:
        """Let no text from here on hold a marker, which stands in another place and would be taken for text there."""
        if marker not in self._added_tokens:
            self._never = (*self._never, _holding(marker))

    def never_first(self, char: str) -> None:
        """Let no text from here on begin with a character, behind whitespace."""
        self._never = (*self._never, _beginning(char))

    def rule(self, name: str, body: str) -> str:
        """Add a rule and return its name."""
        self._rules[name] = body
        return name

    def new_rule(self, body: str) -> str:
        """Add a rule under a name of its own and return that."""
        return self.rule(f"rule_{len(self._rules)}", body)

    def has_rule(self, name: str) -> bool:
        """Return whether there is a rule of this name."""
        return name in self._rules

    def grammar(self, start: str) -> Grammar:
        """Return the grammar whose answers are `start`."""
        rules = {"start": start, **self._rules}
        source = "".join(f"{name}: {body}\n" for name, body in rules.items())
        return Grammar(GrammarKind.LARK, source, param="tools", embedded=tuple(self._embedded.items()))

    def embedded(self, grammar: Grammar) -> str:
        """Return an expression for what a grammar of any language describes."""
        name = f"embedded_{len(self._embedded)}"
        self._embedded[name] = grammar
        return f"@{name}"

    def marker(self, text: str) -> str:
        """Return an expression for a marker, which may be a token."""
        token_id = self._added_tokens.get(text)
        return literal(text) if token_id is None else f"(<[{token_id}]> | {literal(text)})"

    def spaced_marker(self, text: str, label: str = "") -> str:
        """Return an expression for a marker, perhaps behind whitespace, where any other text could stand, too.

        The whitespace and a marker that is text are one lexeme: else the whitespace would begin any other text, too,
        which is longer and so taken, and in which the marker may not be.  So of two markers that may stand in one
        place, a thought's and a call's, both have to be of this kind.

        Args:
            text: the marker.
            label: a text right behind it.
        """
        spelled = rf"/[ \t\r\n]{{0,{MOST_SPACES}}}{_regex(text + label)}/"
        token_id = self._added_tokens.get(text)
        if token_id is None:
            return spelled
        return f"({self.spaces()} <[{token_id}]> {literal(label) if label else ''} | {spelled})"

    def until(self, marker: str, *never_first: str) -> str:
        """Return an expression for any text up to a marker, and the marker.

        Args:
            marker: whose first place ends the text.
            never_first: what the text may not begin with, behind whitespace or none.
        """
        text = self._text("*", *map(_beginning, never_first))
        token_id = self._added_tokens.get(marker)
        if token_id is not None:
            return f"{self.new_rule(text)} <[{token_id}]>"
        name = f"until_{len(self._rules)}"
        self._rules[f"{name}[suffix={literal(marker)}]"] = text
        return name

    def value(self, end: str, *following: str) -> str:
        """Return an expression for any text up to an end tag, and the tag, behind which one of `following` has to come.

        A tag behind which something else comes belongs to the text.  What comes behind the expression has to be a
        `spaced_marker`: whitespace on its own would begin more text, too.
        """
        return f"{self.until(end)} ({self.until(end, *following)})*"

    def without(self, *markers: str) -> str:
        """Return an expression for any text, or none, that has none of these markers in it."""
        return self._text("+", *map(_holding, markers)) + "?"

    def spaces(self) -> str:
        """Return an expression for whitespace, or none."""
        return self.rule("SPACES", rf"/[ \t\r\n]{{1,{MOST_SPACES}}}/") + "?"

    def arguments(self, tool: Tool) -> str:
        """Return an expression for a tool's arguments as JSON; a strict tool's fit its schema in every detail."""
        return "%json " + json.dumps(arguments_schema(tool))

    def _text(self, times: str, *excluded_here: str) -> str:
        excluded = "".join(f" & ~{regex}" for regex in (*excluded_here, *self._never))
        return self.rule(f"TEXT_{len(self._rules)}", f"/(.|\\n){times}/{excluded}")


def arguments_schema(tool: Tool) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments, as the grammar is to hold it.

    What llguidance does not know of a schema is left out of it, where the client does not insist on the schema.

    Raises:
        RequestError: it is too large or too deep, or a strict tool's schema cannot be held.
    """
    if tool.custom:
        schema = {
            "type": "object",
            "properties": {INPUT: _input_schema(tool)},
            "required": [INPUT],
            "additionalProperties": False,
        }
        return prepare_schema(schema, "tools")
    return prepare_schema({"type": "object", **tool.parameters}, "tools", lenient=not tool.strict)


def _input_schema(tool: Tool) -> dict[str, Any]:
    """Return the schema of a custom tool's input where it is a JSON string: no Lark grammar can hold that."""
    if tool.grammar is not None and tool.grammar.kind is GrammarKind.REGEX:
        return {"type": "string", "pattern": f"^(?:{tool.grammar.source})$"}
    return {"type": "string"}


def one_of(expressions: Sequence[str]) -> str:
    """Return an expression for any one of these."""
    return expressions[0] if len(expressions) == 1 else f"({' | '.join(expressions)})"


def literal(text: str) -> str:
    """Return an expression for exactly this text."""
    return json.dumps(text)


def _holding(marker: str) -> str:
    return rf"/(.|\n)*{_regex(marker)}(.|\n)*/"


def _beginning(text: str) -> str:
    return rf"/[ \t\r\n]*{_regex(text)}(.|\n)*/"


def _regex(text: str) -> str:
    return re.escape(text).replace("/", r"\/").replace("\n", "n")


def json_key(name: str) -> str:
    """Return an expression for `"name":` with the whitespace that JSON allows on both sides."""
    return f"/[ \\n]*{_regex(json.dumps(name))}[ ]*:[ ]*/"
