"""The schemas as they are asked for, and what is said of each: by `jsonschema`, and by a grammar of single bytes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
from jsonschema import validators
from jsonschema.validators import validator_for

from runtime.grammar.compiler import CompiledGrammar, GrammarCompiler
from runtime.grammar.grammar import Grammar, GrammarKind
from runtime.text.tokenizer import Tokenizer
from tests.live.schemas.collect import DATA, choose
from tests.models.small_tokenizers import byte_level

KEYWORDS = frozenset(
    {
        *("$schema", "$ref", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "type", "enum"),
        *(
            "const",
            "multipleOf",
            "maximum",
            "exclusiveMaximum",
            "minimum",
            "exclusiveMinimum",
            "maxLength",
            "minLength",
        ),
        *("pattern", "format", "items", "prefixItems", "additionalItems", "maxItems", "minItems", "uniqueItems"),
        *("contains", "maxContains", "minContains", "unevaluatedItems", "maxProperties", "minProperties", "required"),
        *("properties", "patternProperties", "additionalProperties", "propertyNames", "unevaluatedProperties"),
        *("dependencies", "dependentRequired", "dependentSchemas", "allOf", "anyOf", "oneOf", "not"),
        *("if", "then", "else"),
    }
)


@dataclass(frozen=True)
class Case:
    """One schema."""

    name: str
    schema: dict[str, Any]

    @property
    def source(self) -> str:
        """As JSON."""
        return json.dumps(self.schema)

    def keyword_in(self, message: str) -> str | None:
        """The keyword of this schema that a message names first."""
        named = [keyword for keyword in self._keywords(self.schema) if keyword in message]
        return min(named, key=lambda keyword: (message.index(keyword), -len(keyword)), default=None)

    def _keywords(self, part: object) -> set[str]:
        if isinstance(part, dict):
            return (part.keys() & KEYWORDS).union(*map(self._keywords, part.values()))
        return set().union(*map(self._keywords, part)) if isinstance(part, list) else set()

    def fault_of(self, text: str) -> str | None:
        """Return why a finished output is not of the schema, or None."""
        validator = validator_for(self.schema, default=jsonschema.Draft202012Validator)
        exact = validators.extend(validator, {"multipleOf": _multiple_of})
        checked = exact(self.schema, format_checker=validator.FORMAT_CHECKER)
        try:
            error = next(checked.iter_errors(json.loads(text)), None)
        except ValueError as error:
            return f"no JSON: {error}"
        return None if error is None else error.message[:300]

    def may_go_on(self, text: str) -> bool:
        """Return whether an output may begin with a text."""
        tokens = _bytes().encode(text, add_special_tokens=False)
        return _grammar(self.source).matcher().count_valid(tokens) == len(tokens)


def _multiple_of(validator: Any, factor: float, number: object, schema: object) -> Iterator[jsonschema.ValidationError]:  # noqa: ANN401
    """Check exactly, where `jsonschema` divides floats, which cannot hold an integer of 400 digits."""
    if not validator.is_type(number, "number") or number in (math.inf, -math.inf):
        return
    if Fraction(repr(number)) % Fraction(repr(factor)):
        yield jsonschema.ValidationError(f"{number!r} is not a multiple of {factor}")


@cache
def _bytes() -> Tokenizer:
    return Tokenizer(byte_level())


@cache
def _compiler() -> GrammarCompiler:
    return GrammarCompiler(_bytes(), _bytes().vocab_size, (2,))


@cache
def _grammar(schema: str) -> CompiledGrammar:
    return _compiler().compile(Grammar(GrammarKind.JSON_SCHEMA, schema))


def load_cases(folder: Path | None = None) -> list[Case]:
    """The hundred of `data`; or as many of another folder, JSONSchemaBench's for one, by the same rule."""
    if folder is None:
        found = {
            f"{path.stem}/{name}": schema
            for path in sorted(DATA.glob("*.json"))
            for name, schema in json.loads(path.read_text(encoding="utf-8")).items()
        }
    else:
        found = choose(_schemas_in(folder), 100)
    return [Case(name, schema) for name, schema in found.items()]


def _schemas_in(folder: Path) -> dict[str, Any]:
    found = {}
    for path in sorted(folder.rglob("*.json")):
        try:
            schema = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            continue  # a file of a copy that is not whole
        if isinstance(schema, dict):
            found[str(path.relative_to(folder))] = schema.get("schema", schema)  # beside its tests, in MaskBench's form
    return found
