"""Every field of the bodies is bounded, and what is wrong or not done has one clear refusal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runtime.errors import RequestError
from tests.fakes.engine import model
from tests.unit.web.apis.ollama.apps import HELLO, chat
from tests.unit.web.bounds import unbounded
from web.apis.ollama.parse import parse_chat, parse_generate
from web.apis.ollama.schemas import ChatBody, GenerateBody, ModelBody
from web.process.limits import MAX_CALLS, MAX_TOOLS

CALL = {"function": {"name": "a", "arguments": {}}}
TOOL = {"type": "function", "function": {"name": "a"}}


@pytest.mark.parametrize("body", [ChatBody, GenerateBody, ModelBody])
def test_no_field_is_without_a_bound(body: type[ChatBody]) -> None:
    assert unbounded(body.model_json_schema()) == []


WRONG: list[tuple[str, Any, str]] = [
    ("messages", [{"role": "wizard", "content": "hi"}], "messages.0.role"),
    ("messages", [{"role": "user", "content": ["hi"]}], "messages.0.content"),
    ("messages", [{"role": "user", "content": "hi", "images": ["x"]}], "messages.0.images"),
    ("messages", [{"role": "assistant", "tool_calls": [CALL] * (MAX_CALLS + 1)}], "messages.0.tool_calls"),
    ("messages", [{"role": "assistant", "tool_calls": [{"function": {}}]}], "messages.0.tool_calls.0.function.name"),
    (
        "messages",
        [{"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": "{}"}}]}],
        "messages.0.tool_calls.0.function.arguments",
    ),
    (
        "messages",
        [{"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": {"a": [0] * 20_000}}}]}],
        "messages.0.tool_calls.0.function.arguments",
    ),
    ("tools", [TOOL] * (MAX_TOOLS + 1), "tools"),
    ("tools", [{"type": "custom", "function": {"name": "a"}}], "tools.0.type"),
    ("tools", [TOOL, TOOL], "tools"),
    ("tools", [{"function": {}}], "tools.0.function.name"),
    ("think", "lots", "think"),
    ("think", 1, "think"),
    ("format", "yaml", "format"),
    ("format", ["json"], "format"),
    ("format", {"enum": [0] * 9000}, "format"),
    ("_debug_render_only", True, "_debug_render_only"),
    ("stream", "yes", "stream"),
    ("top_logprobs", 21, "top_logprobs"),
    ("options", [], "options"),
    ("options", {"temperature": 3}, "options.temperature"),
    ("options", {"num_predict": -3}, "options.num_predict"),
    ("options", {"num_predict": 1.5}, "options.num_predict"),
    ("options", {"top_p": 0}, "options.top_p"),
    ("options", {"seed": "1"}, "options.seed"),
    ("options", {"stop": ["x"] * 17}, "options.stop"),
    ("options", {"mirostat": 2}, "options.mirostat"),
    ("options", {"typical_p": 0.5}, "options.typical_p"),
    ("options", {"penalize_newline": False}, "options.penalize_newline"),
]


@pytest.mark.parametrize(("name", "value", "param"), WRONG)
def test_what_is_wrong_is_named(name: str, value: object, param: str) -> None:
    with pytest.raises(RequestError) as refused:
        chat(**{name: value})
    assert refused.value.status == 400
    assert refused.value.param == param
    assert param in str(refused.value)


@pytest.mark.parametrize(("name", "value"), [("template", "{{ .Prompt }}"), ("images", ["x"]), ("context", ["x"])])
def test_what_is_wrong_with_a_prompt_is_named(name: str, value: object) -> None:
    with pytest.raises(RequestError, match=f"'{name}"):
        parse_generate(json.dumps({"prompt": "hi", name: value}).encode(), model())


def test_what_asks_for_nothing_and_what_nobody_knows_is_let_pass(caplog: pytest.LogCaptureFixture) -> None:
    neutral = {"typical_p": 1.0, "mirostat": 0, "penalize_newline": True}
    loading = {"num_ctx": 4096, "num_gpu": 1, "use_mmap": True}
    with caplog.at_level("INFO", "cede.web"):
        chat(format="", images=[], keep_alive="5m", truncate=True, options=neutral | loading)
    assert caplog.messages == []
    with caplog.at_level("INFO", "cede.web"):
        chat(surprise=1, options={"sparkle": 2})
    (message,) = caplog.messages
    assert message.endswith("ignored unknown fields: 'surprise, options.sparkle'")


def test_a_body_of_too_many_values_is_refused_before_it_is_parsed() -> None:
    body = HELLO | {"messages": [[[]] * 7000]}
    with pytest.raises(RequestError, match="arrays"):
        parse_chat(json.dumps(body).encode(), model())
