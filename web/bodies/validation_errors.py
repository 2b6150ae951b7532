"""Pydantic's errors as a `RequestError`: one sentence on the first fault, with the path of its field."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from runtime.errors import RequestError
from web.process.limits import MAX_BIASES, MAX_NAME, MAX_UNKNOWN_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

# What a field should be, for each type of error.  The names in braces are in the error's context.
WANTED: dict[str, str] = {
    "bool_type": "true or false",
    "int_type": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "greater_than": "greater than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
    "string_type": "a string",
    "list_type": "an array",
    "dict_type": "an object",
    "model_type": "an object",
    "literal_error": "{expected}",
    "stop": "a string or an array of strings",
    "prompt": "text, an array of token ids, or a non-empty array of either",
    "content": "a string or an array of text parts",
    "part": "a part of type 'text' or 'refusal'",
    "tool": "an object of type 'function' or 'custom'",
    "conversation": "the id of a conversation, or an object that has it",
    "custom_format": "an object of type 'text' or 'grammar'",
    "tool_choice": "'none', 'auto', 'required', or an object of type 'function', 'custom' or 'allowed_tools'",
    "response_format": "an object of type 'text', 'json_object' or 'json_schema'",
    "schema_or_text": "a JSON schema, or one as text",
    "function_call": "'none', 'auto', or an object with a 'name'",
    "think": "true, false, 'low', 'medium', 'high' or 'max'",
    "answer_format": "'json' or a JSON schema",
    "blocks": "a string or an array of content blocks",
    "block": "an object with a 'type'",
}
# What a field should have.  These errors do not show the value, which may be large.
WANTED_SIZES: dict[str, str] = {
    "string_too_short": "must not be empty",
    "string_too_long": "should have at most {max_length} characters",
    "too_short": "must not be empty",
    "too_long": "should have at most {max_length} entries",
    "too_many_biases": f"should have at most {MAX_BIASES} entries",
    "too_much_in_it": (
        "should hold at most {most_values} values and {most_characters} characters, at all depths together"
    ),
    "string_pattern_mismatch": "should match {pattern}",
    "media": "must be text: this server reads no {media}",
    "unknown_fields": f"should have at most {MAX_UNKNOWN_FIELDS} fields that this server does not know",
    "two_names": "should have '{name}' or another name of the same field, but not both",
    "unknown_name": f"should have no field with a name of more than {MAX_NAME} characters",
}
# What is wrong with a text that is no JSON, for words in the parser's message.
_JSON_FAULTS = {
    "recursion": "arrays and objects in it are nested too deeply",
    "surrogate": "it holds half of a surrogate pair",
    "hex escape": "it holds half of a surrogate pair, or a broken escape",
    "unicode": "it is not UTF-8, or holds half of a surrogate pair",
    "number out of range": "a number in it is too large",
    "EOF": "it ends too early",
    "control character": "a string in it holds a control character",
}


def request_error(error: ValidationError, named: Callable[[Sequence[str | int]], str] | None = None) -> RequestError:
    """Return the first fault in `error` as one sentence, with the field's path as `param`.

    Args:
        error: of a validation.
        named: returns what the client calls the place of a fault; None for its path in the body.
    """
    first = error.errors(include_url=False)[0]
    kind, param = first["type"], (named or dotted)(first["loc"])
    # A bound of 2.0 is shown as 2.
    context = {
        name: f"{value:g}" if isinstance(value, float) else value for name, value in first.get("ctx", {}).items()
    }
    if kind == "json_invalid":
        return _json_error(context)
    if kind == "missing":
        return RequestError(f"Missing required parameter: '{param}'.", param=param, code="missing_required_parameter")
    if kind == "extra_forbidden":
        return RequestError(f"Unknown parameter: '{param}'.", param=param, code="unknown_parameter")
    if not param and kind == "model_type":
        return RequestError("The body must be a JSON object.")
    if kind in WANTED_SIZES:
        subject = f"Invalid '{param}': it" if param else "Invalid body: it"
        code = "unsupported_parameter" if kind == "media" else None
        return RequestError(f"{subject} {WANTED_SIZES[kind].format_map(context)}.", param=param or None, code=code)
    wanted = WANTED.get(kind, "of another form").format_map(context)
    return RequestError(f"Invalid '{param}': it should be {wanted}, but got {_shown(first)}.", param=param)


def dotted(location: Sequence[str | int]) -> str:
    """Return a path such as `messages.0.content.1.type`: pydantic's, without the tags of unions."""
    if location and location[-1] == "[key]":  # the key itself is at fault, and may be of any length
        location = location[:-2]
    steps = [str(step)[:40] for step in location]
    return ".".join(step for step in steps if not step.startswith("<"))[:200]


def _json_error(context: Mapping[str, Any]) -> RequestError:
    message = str(context["error"])
    place = re.search(r"at (line \d+ column \d+)$", message)
    fault = next((sentence for words, sentence in _JSON_FAULTS.items() if words in message), None)
    where = f" ({place[1].replace(' column', ', column')})" if place else ""
    return RequestError(f"The body is not valid JSON{where}{': ' + fault if fault else ''}.", code="invalid_json")


def _shown(fault: ErrorDetails) -> str:
    """Return a faulty value as a message shows it: a short scalar as it is, anything else by its JSON type."""
    value = fault["input"]
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an empty array" if not value else "an array"
    if isinstance(value, int) and value.bit_length() > 200:
        return "a larger one" if value > 0 else "a smaller one"
    shown = repr(value[:60]) if isinstance(value, str) else repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
