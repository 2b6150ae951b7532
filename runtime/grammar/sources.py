"""Grammars in llguidance's words, and what is refused before the library sees it.

The library bounds its own work by counts (`runtime.grammar.compiler`), but for a few parts of it whose time grows
faster than a source: the members of one JSON schema's objects, and the depth of what is nested.  These are bounded
here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from llguidance import LLMatcher
from llguidance.gbnf_to_lark import GbnfToLarkError, any_to_lark

from runtime.errors import RequestError
from runtime.grammar.grammar import Grammar, GrammarKind
from runtime.units import KIB

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_SOURCE = 256 * KIB
"""Characters of a grammar."""

MAX_GBNF = 32 * KIB
"""Characters of a GBNF grammar, which is translated in Python."""

MAX_DEPTH = 64
"""Objects and arrays of a JSON schema within one another."""

MAX_MEMBERS = 1024
"""Members of one object of a JSON schema: the library compares each property with each."""

MAX_OBJECTS = 8192
"""Objects of a JSON schema, and of a whole request's."""

MAX_ERROR = 400
"""Characters of the library's message that the client is shown."""

WHITESPACE = r"(\r?\n)?[ \t]{0,40}"
"""Between the tokens of JSON: room for a line break and an indentation, and an end to it, for a small model that has
nothing better to say may go on with spaces for ever."""


def library_source(grammar: Grammar) -> str:
    """Return a grammar as the library takes it.

    Raises:
        RequestError: it is too large or too deep, or not of its language.
    """
    parts = [_part(grammar)]
    if grammar.answer is not None:
        parts.append({**_part(grammar.answer), "name": "answer"})
    return json.dumps({"grammars": parts})


def _part(grammar: Grammar) -> dict[str, Any]:
    bound = MAX_GBNF if grammar.kind is GrammarKind.GBNF else MAX_SOURCE
    if len(grammar.source) > bound:
        raise _refused(grammar, f"has {len(grammar.source)} characters; at most {bound} are allowed")
    match grammar.kind:
        case GrammarKind.JSON_SCHEMA:
            return _only_part(_json_schema(grammar))
        case GrammarKind.REGEX:
            return _only_part(LLMatcher.grammar_from_regex(grammar.source))
        case GrammarKind.CHOICE:
            choices = json.loads(grammar.source)
            alternatives = " | ".join(json.dumps(choice, ensure_ascii=False) for choice in choices)
            return {"lark_grammar": f"start: {alternatives}"}
        case GrammarKind.GBNF:
            return {"lark_grammar": _lark_of_gbnf(grammar)}
        case GrammarKind.LARK:
            return {"lark_grammar": grammar.source}


def _only_part(source: str) -> dict[str, Any]:
    (part,) = json.loads(source)["grammars"]
    found: dict[str, Any] = part
    return found


def readable_error(grammar: Grammar, error: str) -> str:
    """Return a sentence for the client of the library's error, whose first line says what, or its last one."""
    lines = [line.strip() for line in error.strip().splitlines() if line.strip() and line.strip() != "<non-verbose/>"]
    said = lines[0] if lines else "it cannot be compiled"
    reasons = [line.removeprefix("error: ") for line in lines[1:] if line.startswith("error: ")]
    what = ": ".join([said.rstrip(":"), *reasons])
    return f"The {_name(grammar)} cannot be used: {what[:MAX_ERROR]}"


def _json_schema(grammar: Grammar) -> str:
    try:
        schema = json.loads(grammar.source)
    except (ValueError, RecursionError) as error:
        raise _refused(grammar, f"is not valid JSON: {error}") from None
    if schema is True:
        schema = {}
    if not isinstance(schema, dict):
        raise _refused(grammar, "must be an object")
    check_schema(grammar, schema)
    defaults = {"whitespace_pattern": WHITESPACE}
    try:
        return LLMatcher.grammar_from_json_schema(grammar.source, defaults, {"lenient": False})  # type: ignore[arg-type]
    except ValueError as error:
        raise _refused(grammar, str(error)) from None


def check_schema(grammar: Grammar, schema: Mapping[str, Any]) -> None:
    """Go through a schema, without recursion.

    Args:
        grammar: that it stands in, for errors.
        schema: of JSON.

    Raises:
        RequestError: it is too deep, or has too many objects.
    """
    level: list[Any] = [schema]
    depth = objects = 0
    while level:
        depth += 1
        objects += len(level)
        if depth > MAX_DEPTH:
            raise _refused(grammar, f"is nested more than {MAX_DEPTH} levels deep")
        if objects > MAX_OBJECTS:
            raise _refused(grammar, f"has more than {MAX_OBJECTS} objects and arrays")
        for part in level:
            if isinstance(part, dict) and len(part) > MAX_MEMBERS:
                raise _refused(grammar, f"has an object with {len(part)} members; at most {MAX_MEMBERS} are allowed")
        level = [inner for part in level for inner in _values(part) if isinstance(inner, dict | list)]


def _values(part: dict[str, Any] | list[Any]) -> list[Any]:
    return list(part.values()) if isinstance(part, dict) else part


def _lark_of_gbnf(grammar: Grammar) -> str:
    """Translate llama.cpp's notation; what is Lark already stays as it is."""
    try:
        return str(any_to_lark(grammar.source))
    except RecursionError:
        raise _refused(grammar, "is nested too deeply") from None
    except GbnfToLarkError as error:
        raise _refused(grammar, f"is not valid: {' '.join(str(error).split())[:MAX_ERROR]}") from None


def _refused(grammar: Grammar, why: str) -> RequestError:
    return RequestError(f"The {_name(grammar)} {why}.", param=grammar.param)


def _name(grammar: Grammar) -> str:
    names = {GrammarKind.JSON_SCHEMA: "JSON schema", GrammarKind.REGEX: "regular expression"}
    return names.get(grammar.kind, "grammar")
