"""Values that a JSON schema allows, among them those at its bounds, and some just beyond.

The schemas are those of the declared bodies, so a field that is added to one is drawn without a word here.  `TELLING`
has what only fits by its meaning: token ids of the vocabulary, grammars, names of models.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from web.process.limits import MAX_CHOICES

Json = dict[str, Any]

WORDS = ("import", "return", "self", "the", "0x1f", "é", "漢字", "\U0001f600", "</s>", "<|im_start|>", "{{", "%}")
LONGEST = 1100
"""Characters or entries of what is drawn at a bound: longer ones are for `large`."""

DEEPEST = 9
"""Objects in one another, at most."""

ANY_TYPE: tuple[object, ...] = ("x", 1, None, True)
SCHEMAS: tuple[object, ...] = (
    *({}, {"type": "object"}, {"type": "string", "maxLength": 5}, {"enum": ["a", 1, None]}, {"const": "x"}),
    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False},
    {"$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}}, "$ref": "#/$defs/n"},
    *({"$ref": "#"}, {"$ref": "http://x/y"}, {"type": "thing"}, {"type": 7}, {"not": {}}, {"pattern": "(a|a)*b("}),
    *({"type": "string", "pattern": "(x+x+)+y"}, {"enum": []}, {"allOf": [{"type": "string"}, {"type": "null"}]}),
    *({"minimum": 10**30, "type": "integer"}, {"type": "array", "minItems": 10**9}, {"properties": {"a": 1}}),
    {"type": "string", "minLength": 10**9},
)
GRAMMARS = (
    *("", "a", "[a-z]{1,4}", "(", "(a*)*b", "a{1,100000}", "(?=a)b", "\\p{L}+", "[", "root ::= [a-z]+", "root ::="),
    *("root ::= root", 'root ::= "a" | root', 'start: "a"+', "start: start", 'start: "a" x', "%import common.INT"),
    *("start: /(x+x+)+y/", "\0", "root ::= " + "(" * 300, 'start: "' + "a" * 5000 + '"'),
)


def words(dice: Random, count: int) -> str:
    """Return text of so many words, some of them odd."""
    return " ".join(dice.choices(WORDS, k=count))


def _of(*values: object) -> Callable[[Random], object]:
    return lambda dice: dice.choice(values)


def _text(dice: Random) -> str:
    return words(dice, dice.choice([1, 4, 9, 40]))


def _ids(dice: Random) -> list[int]:
    return dice.choices(range(300, 380), k=dice.choice([1, 3, 20, 60])) + dice.choice([[], [], [], [10**6]])


_COUNT = _of(1, 2, 8, 24, 24, 40, 512, 10**9, 0)

TELLING: dict[str, Callable[[Random], object]] = {
    "model": _of("cede-embedded", "embedded", "any", "other"),
    "prompt": lambda dice: dice.choice([_text(dice), _ids(dice), ["a", "b"] * dice.choice([1, 40]), [_ids(dice)] * 2]),
    "content": _text,
    "text": _text,
    "input": _text,
    "tokens": _ids,
    "context": _ids,
    "n": _of(1, 1, 2, MAX_CHOICES),
    "best_of": _of(0, 1, 2),
    **dict.fromkeys(["max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict", "num_predict"], _COUNT),
    "min_tokens": _of(0, 1, 8),
    "stop_token_ids": _ids,
    "allowed_token_ids": _ids,
    "logit_bias": lambda dice: {str(key): dice.choice([-100, 100, 0.5]) for key in dice.sample(range(380), k=30)},
    **dict.fromkeys(["schema", "parameters", "input_schema", "guided_json", "json_schema"], _of(*SCHEMAS)),
    **dict.fromkeys(["grammar", "definition", "guided_regex", "guided_grammar", "regex"], _of(*GRAMMARS)),
    "tool_choice": _of("auto", "none", "required", {"type": "function", "function": {"name": "f"}}, {"type": "tool"}),
    "chat_template_kwargs": _of({}, {"x": 1}, {"messages": []}, {"tools": "x"}, {"enable_thinking": False}),
}


class Fitting:
    """Draws values that a body's schema allows.

    Args:
        schema: JSON Schema's, as pydantic writes it.
    """

    def __init__(self, schema: Json) -> None:
        self.schema = schema

    def draw(self, dice: Random, name: str) -> object:
        """Return a value for a field of the body."""
        return self._value(self.schema["properties"].get(name, {}), dice, name, 0)

    def names(self) -> list[str]:
        """Return all fields of the body, each under all its names."""
        return sorted(self.schema["properties"])

    def _value(self, schema: Json, dice: Random, name: str, depth: int) -> object:
        telling = TELLING.get(name)
        if telling is not None and dice.random() < 0.7:
            return telling(dice)
        if "$ref" in schema:
            return self._value(self.schema["$defs"][schema["$ref"].rpartition("/")[2]], dice, name, depth)
        if alternatives := schema.get("anyOf") or schema.get("oneOf"):
            given = [part for part in alternatives if part.get("type") != "null"]
            return self._value(dice.choice(given if dice.random() < 0.95 else alternatives), dice, name, depth)
        if "enum" in schema or "const" in schema:
            return dice.choice(schema.get("enum", [schema.get("const")]))
        return self._of_type(schema, dice, depth)

    def _of_type(self, schema: Json, dice: Random, depth: int) -> object:
        match schema.get("type"):
            case "object":
                return self._object(schema, dice, depth)
            case "array":
                return [self._value(schema.get("items", {}), dice, "", depth + 1) for _ in range(_length(schema, dice))]
            case "string":
                return _string(schema, dice)
            case "integer" | "number" as kind:
                return _number(schema, dice, whole=kind == "integer")
            case "boolean":
                return dice.random() < 0.5
            case "null":
                return None
            case _:
                return dice.choice(ANY_TYPE)

    def _object(self, schema: Json, dice: Random, depth: int) -> Json:
        properties: Json = schema.get("properties", {})
        required = schema.get("required", [])
        names = [name for name in properties if name in required]
        if depth < DEEPEST:
            others = [name for name in properties if name not in required]
            names += dice.sample(others, k=min(len(others), dice.choice([0, 0, 1, 2, 5])))
        drawn = {name: self._value(properties[name], dice, name, depth + 1) for name in names}
        if not properties and isinstance(schema.get("additionalProperties"), dict):
            each = schema["additionalProperties"]
            drawn |= {f"k{number}": self._value(each, dice, "", depth + 1) for number in range(dice.choice([0, 1, 3]))}
        return drawn


def _length(schema: Json, dice: Random) -> int:
    least, most = schema.get("minItems", 0), min(schema.get("maxItems", 3), 3)
    return dice.randint(min(least, most), most)


def _string(schema: Json, dice: Random) -> str:
    least, most = int(schema.get("minLength", 0)), int(schema.get("maxLength", LONGEST))
    if most > LONGEST or dice.random() < 0.7:
        return _text(dice)[: min(most, LONGEST)]
    return "b" * dice.choice([least, most])


def _number(schema: Json, dice: Random, *, whole: bool) -> float:
    least = float(schema.get("minimum") or schema.get("exclusiveMinimum", 0))
    most = float(schema.get("maximum") or schema.get("exclusiveMaximum", 10**6))
    drawn = dice.choice([least, most, least + (most - least) * dice.random(), min(most, max(least, 1.0))])
    return int(drawn) if whole else drawn
