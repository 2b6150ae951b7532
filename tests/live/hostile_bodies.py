"""Request bodies that no client in its right mind sends, each fixed by one integer.

A body begins as one that is in order.  Then some of its fields, any of the schema's, get a value that is valid, at its
bound, beyond it, of another type, huge, nested, not finite or not text; unknown fields come in; and the bytes of the
whole may be cut short, doubled, in another encoding or under another content type.
"""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import AliasChoices

from tests.live.server import CHAT, COMPLETIONS
from web.app import APIS
from web.limits import MAX_BIASES, MAX_CHOICES, MAX_NAME, MAX_STOP_LENGTH, MAX_STOP_STRINGS, MAX_UNKNOWN_FIELDS
from web.openai.schemas import HINTS, UNSUPPORTED

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from pydantic import BaseModel

    from tests.live.server import Json

OPERATIONS = tuple(operation for api in APIS for operation in api.operations)
SCHEMAS = {operation.path: operation.body for operation in OPERATIONS if operation.body is not None}
EXAMPLES = {operation.path: operation.example for operation in OPERATIONS if operation.example is not None}
MODEST = 40_000  # characters or elements, at most, of what is drawn at random
NESTING = "@nested {}@"  # stands for so many arrays in one another, which `json.dumps` cannot write
WORDS = ("import", "return", "self", "the", "0x1f", "é", "漢字", "\U0001f600", "</s>", "<|im_start|>", "{{", "%}")
STRINGS = (
    *("", "\0", "\ud800", "\udfff\ud800", "\r\nx-forged: 1", "\x1b[2J", "\u2028\u2029", "\ufeff", "\u202e", "a\u0301"),
    *("../../etc/passwd", "{{ 7 * 7 }}", "${jndi:x}", "%s%n", "'; --", "<script>", "nan", "-1", "null", "__class__"),
)
NUMBERS = (
    *(0, 1, -1, 2, 16, 17, 20, 21, 255, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63), 2**64, 10**400, -(10**400)),
    *(0.0, -0.0, 0.5, 1.0, 1.0000001, 2.0, -2.0, 100.0, 1e-9, 5e-324, 1e308, -1e308, math.nan, math.inf, -math.inf),
)
CONTENT_TYPES = (
    *("text/plain", "", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonx"),
    *("application/json; charset=utf-16", "APPLICATION/JSON", "application/json, text/plain", "x" * 4000),
)


@dataclass(frozen=True, slots=True)
class HostileBody:
    """A POST.  `what` says how it was made, for the message of a test that fails."""

    what: str
    path: str
    raw: bytes
    content_type: str = "application/json"

    def __str__(self) -> str:
        """Say what is wrong with it, and how it begins."""
        return f"{self.what}, {len(self.raw)} bytes of {self.content_type[:40]!r} to {self.path}: {self.raw[:300]!r}"


def draw_body(seed: int) -> HostileBody:
    """The body of that number; the same in every process."""
    dice = random.Random(f"hostile/{seed}")
    path = dice.choice([CHAT, COMPLETIONS]) if dice.random() < 0.6 else dice.choice(sorted(SCHEMAS))
    body = _in_order(dice, path)
    fields = field_names(SCHEMAS[path])
    for name in dice.sample(fields, k=min(len(fields), dice.choice([0, 1, 2, 3, 5, 8, 40]))):
        body[name] = _value(dice, name)
    for name in dice.choices([*HINTS, *UNSUPPORTED, *STRINGS, "x" * 300], k=dice.choice([0, 0, 0, 1, 3])):
        body[name] = anything(dice)
    if dice.random() < 0.05:
        body |= {f"unknown {number}": number for number in range(dice.choice([MAX_UNKNOWN_FIELDS + 1, 3000]))}
    raw = _mangled(dice, _written(body)) if dice.random() < 0.25 else _written(body)
    content_type = dice.choice(CONTENT_TYPES) if dice.random() < 0.1 else "application/json"
    return HostileBody(f"body {seed}", path, raw, content_type)


def field_names(schema: type[BaseModel]) -> list[str]:
    """All that the schema knows, its aliases too."""
    names: set[str] = set()
    for name, field in schema.model_fields.items():
        names |= {name, str(field.alias or name)}
        if isinstance(field.validation_alias, AliasChoices):
            names |= set(map(str, field.validation_alias.choices))
    return sorted(names)


def large_bodies(size: int) -> list[HostileBody]:
    """One of each kind in which a body grows; `size` bytes each, about."""
    greedy: Json = {"max_tokens": 8, "ignore_eos": True}
    chat: Json = greedy | {"messages": [{"role": "user", "content": "hi"}]}
    text: Json = greedy | {"prompt": "import os"}
    ids = {"prompt": list(range(300, 340)), "temperature": 0, "max_tokens": 400, "ignore_eos": True}
    return [
        _large("a long name", text | {"model": "m" * size, "stream": True, "max_tokens": 300}),
        _large("a long user", chat | {"user": "u" * size}),
        _large("a long stop string", text | {"stop": "s" * size, "n": MAX_CHOICES}),
        _large("many stop strings", text | {"stop": ["st"] * (size // 5)}),
        _large("a text of words", text | {"prompt": "import os " * (size // 10)}),
        _large("one word", text | {"prompt": "a" * size}),
        _large("one long message", chat | {"messages": [{"role": "user", "content": "word " * (size // 5)}]}),
        _large("many messages", chat | {"messages": chat["messages"] * (size // 34)}),
        _large("many parts", _parts(chat, size // 28)),
        _large("many prompts", text | {"prompt": ["a"] * (size // 5)}),
        _large("many token ids", text | {"prompt": [300] * (size // 5)}),
        _large("many lists of token ids", text | {"prompt": [[300]] * (size // 7)}),
        _large("deep nesting", text | {"prompt": NESTING.format(size // 2)}),
        _large("deep nesting aside", text | {"aside": NESTING.format(size // 2)}),
        _large("many unknown fields", text | {f"f{number}": 0 for number in range(size // 12)}),
        _large("one long unknown field", text | {"f" * size: 0}),
        _large("many biases", text | {"logit_bias": {str(number): 1 for number in range(size // 12)}}),
        _large("template variables", chat | {"chat_template_kwargs": {f"v{i}": "x" * 90 for i in range(size // 100)}}),
        _large("a large answer", ids | {"n": 4, "logprobs": 20}),
        _large("a large stream", ids | {"n": 4, "logprobs": 20, "stream": True}),
    ]


def _parts(chat: Json, count: int) -> Json:
    return chat | {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}] * count}]}


def _large(what: str, body: Json) -> HostileBody:
    return HostileBody(what, CHAT if "messages" in body else COMPLETIONS, _written(body))


# --- bodies ---------------------------------------------------------------------------------------------------------


def _in_order(dice: Random, path: str) -> Json:
    body: Json = {"max_tokens": dice.choice([1, 8, 24]), "stream": dice.random() < 0.5}
    if path not in (CHAT, COMPLETIONS):
        return dict(EXAMPLES[path]) | {"stream": body["stream"]}
    if path == CHAT:
        turns = [{"role": dice.choice(["user", "assistant", "system"]), "content": words(dice, 9)} for _ in range(2)]
        return body | {"messages": [*turns, {"role": "user", "content": words(dice, 30)}]}
    prompt: object = words(dice, 30) if dice.random() < 0.5 else dice.choices(range(300, 3000), k=dice.randint(1, 60))
    return body | {"prompt": prompt}


def _written(body: Json) -> bytes:
    text = json.dumps(body, ensure_ascii=True)
    first, *others = text.split('"@nested ')
    for part in others:
        depth, _, rest = part.partition('@"')
        first += "[" * int(depth) + "]" * int(depth) + rest
    return first.encode()


def _mangled(dice: Random, raw: bytes) -> bytes:
    """The same, no longer quite JSON, or not quite this JSON."""
    middle = dice.randrange(len(raw))
    ways: list[Callable[[], bytes]] = [
        lambda: raw[:middle],
        lambda: raw[:middle] + dice.choice([b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\0"]) + raw[middle:],
        lambda: b'{"n":2,"stream":true,"max_tokens":1,' + raw[1:],  # keys twice
        lambda: raw[:-1] + b',"prompt":"a","prompt":["b"],"messages":[]}',
        lambda: raw + dice.choice([b"}", b"{}", b"\0", b" " * MODEST, b"//"]),
        lambda: b"\xef\xbb\xbf" + raw,
        lambda: raw.decode().encode("utf-16"),
        lambda: b"[" + raw + b"]",
        lambda: dice.choice([b"", b"null", b"5", b'"x"', b"[]", b"{}", b"\0" * 100, b"-", b"1e999999", b"[" * MODEST]),
        lambda: raw.replace(b'"', b"'"),
    ]
    return dice.choice(ways)()


def words(dice: Random, count: int) -> str:
    """Text of so many words, some of them odd."""
    return " ".join(dice.choices(WORDS, k=count))


# --- values ---------------------------------------------------------------------------------------------------------


def _value(dice: Random, name: str) -> object:
    """A value for a field of the schema: one that fits it, or is at its bound or just beyond, or anything."""
    fitting = FITTING.get(name)
    if fitting is not None and dice.random() < 0.6:
        return fitting(dice)
    return anything(dice)


def anything(dice: Random) -> object:
    """Any JSON value at all."""
    size = dice.choice([0, 1, 2, 17, MAX_NAME, MAX_NAME + 1, 1025, 4096, MODEST])
    makers: list[Callable[[], object]] = [
        lambda: dice.choice(STRINGS),
        lambda: dice.choice(NUMBERS),
        lambda: dice.choice([None, True, False]),
        lambda: dice.choice(STRINGS[1:]) * (size // 4),
        lambda: "x" * size,
        lambda: [dice.choice(STRINGS)] * (size // 4),
        lambda: [dice.choice(NUMBERS) for _ in range(min(size, 300))],
        lambda: {f"{dice.choice(STRINGS)}{number}": dice.choice(NUMBERS) for number in range(min(size, 1200))},
        lambda: NESTING.format(dice.choice([1, 100, 127, 128, 250, MODEST])),
        lambda: [dice.choice(STRINGS), dice.choice(NUMBERS), None, [], {}],
        lambda: [{"type": "text", "text": "x" * min(size, 200)}] * min(size, 200),
    ]
    return dice.choice(makers)()


def _of(*values: object) -> Callable[[Random], object]:
    return lambda dice: dice.choice(values)


def _biases(dice: Random) -> dict[str, Any]:
    keys = dice.sample(range(4500), k=dice.choice([1, 30, MAX_BIASES, MAX_BIASES + 1]))
    return {str(key): dice.choice([-100, 100, 0.5, 101]) for key in keys}


def _messages(dice: Random) -> list[Json]:
    roles = ["system", "user", "assistant", "tool", "developer", "nobody"]
    extra: Json = dice.choice([{}, {}, {"name": "n" * MAX_NAME}, {"name": "n" * (MAX_NAME + 1)}, {"tool_calls": [{}]}])
    count = dice.choice([1, 2, 60, 600])
    return [{"role": dice.choice(roles[:5] if count < 60 else roles), "content": words(dice, 4)} | extra] * count


_FLAG = _of(True, False)
_TOOL: Json = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
_PENALTY = _of(-2, -1.5, 0, 2, 2.0001)
_COUNT = _of(1, 2, 40, 511, 512, 10**9, 0)

# The fields whose valid values are few among all JSON values; the others get whatever comes.
FITTING: dict[str, Callable[[Random], object]] = {
    "model": _of("cede-embedded", "other", "m" * MAX_NAME, "m" * (MAX_NAME + 1)),
    "user": _of("me", "u" * MAX_NAME, "u" * (MAX_NAME + 1)),
    "max_tokens": _COUNT,
    "max_completion_tokens": _COUNT,
    "min_tokens": _of(0, 1, 8, 24, 10**9),
    "temperature": _of(0, 0.7, 2, 2.1, 1e-6),
    "top_p": _of(0.001, 0.9, 1, 0),
    "top_k": _of(-1, 0, 1, 40, 10**30),
    "min_p": _of(0, 0.05, 1),
    "n": _of(1, 2, MAX_CHOICES, MAX_CHOICES + 1),
    "best_of": _of(0, 1, 2),
    "stop": _of("x", ["a", "return"], "s" * MAX_STOP_LENGTH, "s" * (MAX_STOP_LENGTH + 1), ["ab"] * MAX_STOP_STRINGS),
    "stream": _FLAG,
    "stream_options": _of({"include_usage": True}, {"include_usage": 1}),
    "presence_penalty": _PENALTY,
    "frequency_penalty": _PENALTY,
    "repetition_penalty": _of(0.01, 1.3, 100, 0),
    "repeat_penalty": _of(0.01, 1.3, 100, 0),
    "logit_bias": _biases,
    "seed": _of(-1, 0, 7, 2**63 - 1, 2**63),
    "ignore_eos": _FLAG,
    "return_token_ids": _FLAG,
    "cache_prompt": _FLAG,
    "speculate": _FLAG,
    "echo": _FLAG,
    "logprobs": _of(True, False, 0, 5, 20, 21),
    "top_logprobs": _of(0, 20, 21),
    "prompt": lambda dice: dice.choice(
        [words(dice, 400), ["a", "b"] * dice.choice([1, 40]), [[300]] * dice.choice([3, 70]), [2**31], [[]], [""], []]
    ),
    "messages": _messages,
    "chat_template_kwargs": _of({}, {"x": 1}, {"messages": []}, {"a" * 300: NESTING.format(100)}),
    "add_generation_prompt": _FLAG,
    "continue_final_message": _FLAG,
    "tools": _of([], [_TOOL], [_TOOL] * 2, [{"type": "function"}]),
    "tool_choice": _of("auto", "none", "required", {"type": "function", "function": {"name": "f"}}, {"type": "f"}),
    "parallel_tool_calls": _FLAG,
    "functions": _of([], [_TOOL["function"]], [{}]),
    "function_call": _of("none", "auto", {"name": "f"}),
    "reasoning_effort": _of("none", "low", "high", "much"),
    "enable_thinking": _FLAG,
    "thinking_budget": _of(0, 1, 10**9, -1),
    "thinking": _of({"type": "enabled"}, {"type": "disabled", "budget_tokens": 5}, {"type": "so so"}),
    "reasoning": _of({"effort": "low"}, {"enabled": False}, {"max_tokens": 9}, {"effort": 1}),
    "verbosity": _of("low", "high", "loud"),
    "prediction": _of(
        {"type": "content", "content": "import os"}, {"type": "content", "content": []}, {"type": "text"}
    ),
    "service_tier": _of("auto", "flex"),
    "suffix": _of("", "end"),
    "stop_token_ids": _of([], [5], [5] * 300, [10**9]),
    "allowed_token_ids": _of([], [5, 300, 301], [10**9]),
    "include_stop_str_in_output": _FLAG,
}
