"""Every wrong way to write a request has one clear 400."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runtime.errors import RequestError
from tests.fakes.engine import CONTEXT, VOCABULARY, chat, completion, model
from tests.rows import every_row
from tests.unit.web.generation.openai_format.wrong_values import BOTH
from web.apis.openai.chat import parse_chat
from web.apis.openai.completions import parse_completion


def function(name: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a tool that is a function of this name."""
    return {"type": "function", "function": {"name": name, **fields}}


CHAT: list[tuple[str, Any, str]] = [
    ("messages", None, "messages"),
    ("messages", [], "messages"),
    ("messages", "hi", "messages"),
    ("messages", ["hi"], "messages.0"),
    ("messages", [{"content": "hi"}], "messages.0.role"),
    ("messages", [{"role": "user"}], "messages.0.content"),
    ("messages", [{"role": "user", "content": None}], "messages.0.content"),
    ("messages", [{"role": "user", "content": 5}], "messages.0.content"),
    ("messages", [{"role": "wizard", "content": "hi"}], "messages.0.role"),
    ("messages", [{"role": "tool", "content": None}], "messages.0.content"),
    ("messages", [{"role": "user", "content": ["hi"]}], "messages.0.content.0"),
    ("messages", [{"role": "user", "content": [{"type": "text"}]}], "messages.0.content.0.text"),
    (
        "messages",
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
        "messages.0.content.0",
    ),
    ("messages", [{"role": "assistant", "tool_calls": [{}]}], "messages.0.tool_calls.0.function"),
    ("messages", [{"role": "assistant", "tool_calls": [{"type": "custom"}]}], "messages.0.tool_calls.0.custom"),
    ("messages", [{"role": "assistant", "tool_calls": [{"function": {}}]}], "messages.0.tool_calls.0.function.name"),
    ("messages", [{"role": "assistant", "tool_calls": [{}] * 257}], "messages.0.tool_calls"),
    ("messages", [{"role": "assistant", "content": [{"type": "refusal"}]}], "messages.0.content.0.refusal"),
    ("messages", [{"role": "assistant", "audio": {"id": "x"}}], "messages.0.audio"),
    ("tools", [{"type": "function"}], "tools.0.function"),
    ("tools", [{"function": {"name": "f"}}], "tools.0"),
    ("tools", [{"type": "retrieval"}], "tools.0"),
    ("tools", [{"type": "function", "function": {"name": ""}}], "tools.0.function.name"),
    ("tools", [function("f"), function("f")], "tools"),
    ("tools", [function(f"f{number}") for number in range(513)], "tools"),
    ("tools", [function("f", parameters={"a": [[0] * 100] * 100})], "tools.0.function.parameters"),
    ("tools", [function("f", parameters={"a": "x" * 270_000})], "tools.0.function.parameters"),
    ("tools", [{"type": "custom", "custom": {"name": "c", "format": {"type": "x"}}}], "tools.0.custom.format"),
    ("tool_choice", "required", "tool_choice"),  # and no tools
    ("tool_choice", "some", "tool_choice"),
    ("tool_choice", {"type": "function", "function": {"name": "f"}}, "tool_choice"),
    (
        "tool_choice",
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}},
        "tool_choice.allowed_tools.tools",
    ),
    ("functions", [{}], "functions.0.name"),
    ("function_call", {"name": "f"}, "function_call"),
    ("function_call", "must", "function_call"),
    ("reasoning_effort", "much", "reasoning_effort"),
    ("verbosity", "loud", "verbosity"),
    ("thinking", {"type": "maybe"}, "thinking.type"),
    ("messages", [{"role": "user", "content": "x" * CONTEXT}], "messages"),
    ("messages", [{"role": "user", "content": "", "name": "x" * 257}], "messages.0.name"),
    ("messages", [{"role": "tool", "content": "", "tool_call_id": "x" * 257}], "messages.0.tool_call_id"),
    ("messages", [{"role": "user", "content": ""}] * 2049, "messages"),
    ("messages", [{"role": "user", "content": [{"type": "text", "text": ""}] * 1025}], "messages.0.content"),
    ("max_completion_tokens", 3, "max_tokens"),  # differs from max_tokens, below
    ("n_predict", 3, "max_tokens"),
    ("logprobs", 1, "logprobs"),
    ("top_logprobs", 3, "top_logprobs"),  # without logprobs
    ("top_logprobs", 21, "top_logprobs"),
    ("echo", True, "echo"),
    ("chat_template_kwargs", [], "chat_template_kwargs"),
    ("chat_template_kwargs", {"messages": []}, "chat_template_kwargs"),
    ("chat_template_kwargs", {str(entry): 1 for entry in range(65)}, "chat_template_kwargs"),
    ("chat_template_kwargs", {"a": [[0] * 40] * 40}, "chat_template_kwargs"),
    ("chat_template_kwargs", {"a": {"b": ["x" * 70_000]}}, "chat_template_kwargs"),
    ("chat_template_kwargs", {"a": {"x" * 70_000: 0}}, "chat_template_kwargs"),
    ("chat_template_kwargs", {"x" * 257: 0}, "chat_template_kwargs"),
    ("chat_template_kwargs", {"add_generation_prompt": False}, "chat_template_kwargs"),
]
COMPLETION: list[tuple[str, Any, str]] = [
    ("prompt", None, "prompt"),
    ("prompt", [], "prompt"),
    ("prompt", [[]], "prompt"),
    ("prompt", {"text": "hi"}, "prompt"),
    ("prompt", True, "prompt"),
    ("prompt", [1.5], "prompt"),
    ("prompt", ["a", 1], "prompt.1"),
    ("prompt", [1, "a"], "prompt.1"),
    ("prompt", [1, True], "prompt.1"),
    ("prompt", [[1], [2, "a"]], "prompt.1.1"),
    ("prompt", [0, -1], "prompt.1"),
    ("prompt", [VOCABULARY], "prompt"),
    ("prompt", [10**30], "prompt.0"),
    ("prompt", ["x"] * 4097, "prompt"),
    ("prompt", [1] * CONTEXT, "prompt"),
    ("logprobs", True, "logprobs"),
    ("logprobs", 21, "logprobs"),
    ("echo", 1, "echo"),
    ("tools", [{"type": "function"}], "tools"),
    ("tool_choice", "auto", "tool_choice"),
    ("functions", [{}], "functions"),
    ("function_call", "auto", "function_call"),
    ("reasoning_effort", "high", "reasoning_effort"),
]


def check_refusal(caught: RequestError, name: str, param: str) -> None:
    assert (caught.status, caught.kind, caught.param) == (400, "invalid_request_error", param)
    message = str(caught)
    assert name in message or "prompt" in message or "Token ids" in message
    assert message.endswith(".")
    assert "<" not in message
    assert len(message) < 300


@every_row("name, value, param", BOTH + CHAT)
def test_a_bad_chat_body_is_refused_by_name(name: str, value: object, param: str) -> None:
    with pytest.raises(RequestError) as caught:
        chat(**{"max_tokens": 16, name: value})
    check_refusal(caught.value, name, param)


@every_row("name, value, param", BOTH + COMPLETION)
def test_a_bad_completion_body_is_refused_by_name(name: str, value: object, param: str) -> None:
    with pytest.raises(RequestError) as caught:
        completion(**{name: value})
    check_refusal(caught.value, name, param)


@every_row("raw", [b"", b"{", b"nonsense", b'{"prompt": "\\ud800"}', b'{"prompt": "\xff"}', b"[" * 1000, b'{"a": 1,}'])
def test_what_is_not_json_is_said_to_be_so(raw: bytes) -> None:
    with pytest.raises(RequestError, match="not valid JSON") as caught:
        parse_completion(raw, model())
    assert caught.value.code == "invalid_json"


@every_row("raw", [b"[]", b"null", b'"text"', b"5"])
def test_a_body_that_is_no_object_is_refused(raw: bytes) -> None:
    with pytest.raises(RequestError, match="must be a JSON object"):
        parse_chat(raw, model())


def test_messages_are_short_sentences_that_show_what_was_sent() -> None:
    cases: dict[str, dict[str, Any]] = {
        "it should be an integer, but got '5'.": {"max_tokens": "5"},
        "it should be at least -1, but got -2.": {"max_tokens": -2},
        "it should be at most 2, but got 2.1.": {"temperature": 2.1},
        "'assistant', 'tool' or 'function', but got 'wizard'.": {"messages": [{"role": "wizard", "content": ""}]},
        "it must be text: this server reads no images.": {
            "messages": [{"role": "user", "content": [{"type": "image_url"}]}]
        },
        "but got true.": {"max_tokens": True},
    }
    for end, fields in cases.items():
        with pytest.raises(RequestError) as caught:
            chat(**fields)
        assert str(caught.value).endswith(end)


def test_a_missing_field_has_a_code_of_its_own() -> None:
    with pytest.raises(RequestError, match="Missing required parameter: 'messages'") as caught:
        parse_chat(b"{}", model())
    assert (caught.value.param, caught.value.code) == ("messages", "missing_required_parameter")


def test_two_parameters_may_contradict_each_other() -> None:
    with pytest.raises(RequestError, match="differ"):
        chat(max_tokens=3, max_completion_tokens=4)
    with pytest.raises(RequestError, match="exclude each other"):
        chat(continue_final_message=True, add_generation_prompt=True)
    with pytest.raises(RequestError, match="cannot be streamed"):
        completion(prompt_logprobs=0, stream=True)


def test_a_prompt_must_leave_room_for_one_token() -> None:
    completion(prompt=[1] * (CONTEXT - 1))
    with pytest.raises(RequestError, match=f"maximum context length is {CONTEXT} tokens") as caught:
        completion(prompt=[1] * CONTEXT)
    assert (caught.value.param, caught.value.code) == ("prompt", "context_length_exceeded")


def test_a_model_without_a_template_cannot_chat() -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode()
    with pytest.raises(RequestError, match="no chat template"):
        parse_chat(body, model(chat=None))
