"""Grammars in llguidance's words, and what is refused before the library sees it.

The library bounds its own work by counts (`runtime.grammar.compiler`), but for a few parts of it whose time grows
faster than a source: the depth of what is nested, and what `schemas` bounds of a JSON schema.
"""

from __future__ import annotations

import json
from typing import Any

from llguidance import LLMatcher
from llguidance.gbnf_to_lark import GbnfToLarkError, any_to_lark

from runtime.common.units import KIB
from runtime.errors import RequestError
from runtime.grammar.grammar import Grammar, GrammarKind
from runtime.grammar.schemas import prepare_schema

MAX_SOURCE = 256 * KIB
"""Characters of a grammar."""

MAX_GBNF = 32 * KIB
"""Characters of a GBNF grammar, which is translated in Python."""

MAX_ERROR = 400
"""Characters of the library's message that the client is shown."""

KEYWORDS = {
    "patternProperty": "patternProperties",
    "Properties only supported": "minProperties or maxProperties",
    "is not present in a registry": "$ref",
    "Pointer '": "$ref",
    "circular references": "$ref",
    "stack level": "$ref or allOf",
    "regex parse error": "pattern",
    "lookarounds": "pattern",
    "if regex is empty": "pattern",
    "regex for float range": "minimum or maximum",
    "regex for integer range": "minimum or maximum",
}
"""The keyword of a JSON schema that the library speaks of with other words."""


def library_source(grammar: Grammar) -> str:
    """Return a grammar as the library takes it.

    Raises:
        RequestError: it is too large or too deep, or not of its language.
    """
    parts = [_part(grammar)]
    parts += ({**_part(embedded), "name": name} for name, embedded in grammar.embedded)
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
        case GrammarKind.ANY:
            return {"lark_grammar": r"start: /(.|\n)*/"}
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
    if grammar.kind is GrammarKind.JSON_SCHEMA:
        what = _with_keyword(what)
    return f"The {_name(grammar)} cannot be used: {what[:MAX_ERROR]}"


def _with_keyword(what: str) -> str:
    """Return what the library says of a schema, behind the keyword that it is about, where it does not name it."""
    about = next((keyword for words, keyword in KEYWORDS.items() if words in what), None)
    return what if about is None or about in what else f"{about}: {what}"


def _json_schema(grammar: Grammar) -> str:
    try:
        schema = json.loads(grammar.source)
    except (ValueError, RecursionError) as error:
        raise _refused(grammar, f"is not valid JSON: {error}") from None
    if schema is True:
        schema = {}
    if not isinstance(schema, dict):
        raise _refused(grammar, "must be an object")
    prepared = prepare_schema(schema, grammar.param)
    try:
        return LLMatcher.grammar_from_json_schema(json.dumps(prepared))
    except ValueError as error:
        raise _refused(grammar, str(error)) from None


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
