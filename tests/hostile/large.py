"""One body of each kind in which a body grows."""

from __future__ import annotations

from tests.hostile.bodies import WITH_BODY, HostileBody
from tests.hostile.values import Json, nested, written
from web.process.limits import MAX_CHOICES

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


def large_bodies(size: int) -> list[HostileBody]:
    """Return one of each kind in which a body grows; `size` bytes each, about."""
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
        _large("deep nesting", text | {"prompt": nested(size // 2)}),
        _large("deep nesting aside", text | {"aside": nested(size // 2)}),
        _large("many unknown fields", text | {f"f{number}": 0 for number in range(size // 12)}),
        _large("one long unknown field", text | {"f" * size: 0}),
        _large("many biases", text | {"logit_bias": {str(number): 1 for number in range(size // 12)}}),
        _large("template variables", chat | {"chat_template_kwargs": {f"v{i}": "x" * 90 for i in range(size // 100)}}),
        _large("many items", {"input": [{"role": "user", "content": "hi"}] * (size // 34)}, "/v1/responses"),
        _large("a long tool", _tool("t" * size) | {"model": "any", "max_tokens": 8}, "/v1/messages"),
        _large("a long text of tokens", {"content": "import os " * (size // 10), "with_pieces": True}, "/tokenize"),
        _large("many tokens", {"tokens": [300] * (size // 5)}, "/detokenize"),
        _large("a long system", {"prompt": "hi", "system": "s " * (size // 2)}, "/api/generate"),
        _large("a large answer", ids | {"n": 4, "logprobs": 20}),
        _large("a large stream", ids | {"n": 4, "logprobs": 20, "stream": True}),
    ]


def _parts(chat: Json, count: int) -> Json:
    return chat | {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}] * count}]}


def _tool(description: str) -> Json:
    tool = {"name": "f", "description": description, "input_schema": {"type": "object"}}
    return {"messages": [{"role": "user", "content": "hi"}], "tools": [tool]}


def _large(what: str, body: Json, path: str = "") -> HostileBody:
    path = path or (CHAT if "messages" in body else COMPLETIONS)
    return HostileBody(what, "large", WITH_BODY[path], path, written(body))
