"""Every wrong way to write a request has one clear 400; every known way is understood."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from runtime.errors import RequestError
from runtime.sampling.params import SamplingParams
from tests.fakes.engine import BOS, CONTEXT, TEMPLATE, VOCABULARY, chat, completion, model
from web.openai.conversion import parse_chat, parse_completion

BIG = 2**63


def tokens(text: str) -> tuple[int, ...]:
    return tuple(text.encode())


# --- refused ----------------------------------------------------------------------------------------------

BOTH: list[tuple[str, Any, str]] = [
    ("max_tokens", "5", "max_tokens"),
    ("max_tokens", 5.0, "max_tokens"),
    ("max_tokens", True, "max_tokens"),
    ("max_tokens", 0, "max_tokens"),
    ("max_tokens", -2, "max_tokens"),
    ("max_tokens", 2**63, "max_tokens"),
    ("n_predict", 0, "n_predict"),
    ("temperature", "hot", "temperature"),
    ("temperature", -0.1, "temperature"),
    ("temperature", 2.1, "temperature"),
    ("temperature", float("nan"), "temperature"),
    ("temperature", float("inf"), "temperature"),
    ("temperature", False, "temperature"),
    ("top_p", 0, "top_p"),
    ("top_p", 1.01, "top_p"),
    ("n", 0, "n"),
    ("n", 17, "n"),
    ("n", 1.5, "n"),
    ("best_of", 2, "best_of"),
    ("stop", 5, "stop"),
    ("stop", "", "stop"),
    ("stop", ["a", ""], "stop.1"),
    ("stop", ["a", 1], "stop.1"),
    ("stop", ["x"] * 17, "stop"),
    ("stop", "x" * 1025, "stop"),
    ("stop", ["a", "x" * 1025], "stop.1"),
    ("stream", "true", "stream"),
    ("stream", 1, "stream"),
    ("stream_options", {"include_usage": True}, "stream_options"),  # without stream
    ("stream_options", "usage", "stream_options"),
    ("stream_options", {"include_usage": "yes"}, "stream_options.include_usage"),
    ("presence_penalty", 2.5, "presence_penalty"),
    ("frequency_penalty", -2.5, "frequency_penalty"),
    ("logit_bias", [1], "logit_bias"),
    ("logit_bias", {"5": 101}, "logit_bias.5"),
    ("logit_bias", {"5": "1"}, "logit_bias.5"),
    ("logit_bias", {"cat": 1}, "logit_bias"),
    ("logit_bias", {"-1": 1}, "logit_bias"),
    ("logit_bias", {str(token): 1 for token in range(1025)}, "logit_bias"),
    ("logit_bias", {str(VOCABULARY): 1}, "logit_bias"),
    ("logit_bias", {"9" * 5000: 1}, "logit_bias"),
    ("logit_bias", {"²": 1}, "logit_bias"),
    ("seed", BIG, "seed"),
    ("seed", "7", "seed"),
    ("user", 7, "user"),
    ("user", "x" * 257, "user"),
    ("model", 7, "model"),
    ("model", "x" * 257, "model"),
    ("best_of", 17, "best_of"),
    ("top_k", -2, "top_k"),
    ("top_k", 10**400, "top_k"),
    ("top_k", 1.5, "top_k"),
    ("min_p", 1.1, "min_p"),
    ("min_p", -0.1, "min_p"),
    ("repetition_penalty", 0, "repetition_penalty"),
    ("repeat_penalty", -1, "repeat_penalty"),
    ("min_tokens", -1, "min_tokens"),
    ("min_tokens", 17, "min_tokens"),  # beyond max_tokens, below
    ("ignore_eos", "no", "ignore_eos"),
    ("return_token_ids", 1, "return_token_ids"),
    ("cache_prompt", 0, "cache_prompt"),
    ("speculate", "mtp", "speculate"),
    ("tools", [{"type": "function"}], "tools"),
    ("tool_choice", "auto", "tool_choice"),
    ("functions", [{}], "functions"),
    ("function_call", "auto", "function_call"),
    ("response_format", {"type": "json_object"}, "response_format"),
    ("modalities", ["text", "audio"], "modalities"),
    ("audio", {"voice": "x"}, "audio"),
    ("web_search_options", {}, "web_search_options"),
    ("moderation", {"model": "omni-moderation-latest"}, "moderation"),
    ("reasoning_effort", "high", "reasoning_effort"),
    ("store", True, "store"),
    ("suffix", "end", "suffix"),
    ("grammar", "root ::= x", "grammar"),
    ("guided_json", {}, "guided_json"),
    ("stop_token_ids", [1], "stop_token_ids"),
    ("use_beam_search", True, "use_beam_search"),
    ("mirostat", 2, "mirostat"),
    ("allowed_token_ids", [5], "allowed_token_ids"),
]
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
    ("messages", [{"role": "function", "content": "hi"}], "messages.0.role"),
    ("messages", [{"role": "user", "content": ["hi"]}], "messages.0.content.0"),
    ("messages", [{"role": "user", "content": [{"type": "text"}]}], "messages.0.content.0.text"),
    (
        "messages",
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
        "messages.0.content.0.type",
    ),
    ("messages", [{"role": "assistant", "content": "", "tool_calls": [{}]}], "messages.0.tool_calls"),
    ("messages", [{"role": "user", "content": "x" * CONTEXT}], "messages"),
    ("messages", [{"role": "user", "content": "", "name": "x" * 257}], "messages.0.name"),
    ("messages", [{"role": "tool", "content": "", "tool_call_id": "x" * 257}], "messages.0.tool_call_id"),
    ("messages", [{"role": "user", "content": ""}] * 2049, "messages"),
    ("messages", [{"role": "user", "content": [{"type": "text", "text": ""}] * 1025}], "messages.0.content"),
    ("max_completion_tokens", 0, "max_completion_tokens"),
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
]


def check_refusal(caught: RequestError, name: str, param: str) -> None:
    assert (caught.status, caught.kind, caught.param) == (400, "invalid_request_error", param)
    message = str(caught)
    assert name in message or "prompt" in message or "Token ids" in message
    assert message.endswith(".")
    assert "<" not in message
    assert len(message) < 300


@pytest.mark.parametrize(("name", "value", "param"), BOTH + CHAT)
def test_a_bad_chat_body_is_refused_by_name(name: str, value: object, param: str) -> None:
    with pytest.raises(RequestError) as caught:
        chat(**{"max_tokens": 16, name: value})
    check_refusal(caught.value, name, param)


@pytest.mark.parametrize(("name", "value", "param"), BOTH + COMPLETION)
def test_a_bad_completion_body_is_refused_by_name(name: str, value: object, param: str) -> None:
    with pytest.raises(RequestError) as caught:
        completion(**{name: value})
    check_refusal(caught.value, name, param)


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"nonsense", b'{"prompt": "\\ud800"}', b'{"prompt": "\xff"}', b"[" * 1000, b'{"a": 1,}'],
)
def test_what_is_not_json_is_said_to_be_so(raw: bytes) -> None:
    with pytest.raises(RequestError, match="not valid JSON") as caught:
        parse_completion(raw, model())
    assert caught.value.code == "invalid_json"


@pytest.mark.parametrize("raw", [b"[]", b"null", b'"text"', b"5"])
def test_a_body_that_is_no_object_is_refused(raw: bytes) -> None:
    with pytest.raises(RequestError, match="must be a JSON object"):
        parse_chat(raw, model())


def test_messages_are_short_sentences_that_show_what_was_sent() -> None:
    cases: dict[str, dict[str, Any]] = {
        "it should be an integer, but got '5'.": {"max_tokens": "5"},
        "it should be at least 1, or -1 for as many as the context has room for, but got 0.": {"max_tokens": 0},
        "it should be at most 2, but got 2.1.": {"temperature": 2.1},
        "'user', 'assistant' or 'tool', but got 'wizard'.": {"messages": [{"role": "wizard", "content": ""}]},
        "it should be 'text', but got 'image_url'.": {
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
    with pytest.raises(RequestError, match="not supported"):
        completion(echo=True, logprobs=0)


def test_a_prompt_must_leave_room_for_one_token() -> None:
    completion(prompt=[1] * (CONTEXT - 1))
    with pytest.raises(RequestError, match=f"maximum context length is {CONTEXT} tokens") as caught:
        completion(prompt=[1] * CONTEXT)
    assert (caught.value.param, caught.value.code) == ("prompt", "context_length_exceeded")


def test_a_model_without_a_template_cannot_chat() -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode()
    with pytest.raises(RequestError, match="no chat template"):
        parse_chat(body, model(chat_template=None))


# --- understood -------------------------------------------------------------------------------------------


def test_defaults_are_openais() -> None:
    request = chat().request
    assert request.sampling == SamplingParams()
    assert (request.max_tokens, request.stop.stops, request.ignore_eos) == (None, (), False)
    assert (request.cache_prompt, request.speculate) == (True, True)
    assert completion().request.max_tokens == 16
    assert not chat().stream


def test_null_and_neutral_values_stand_for_nothing() -> None:
    names = {name for name, _, _ in BOTH}
    plain = chat().request
    nulls = chat(**dict.fromkeys(names)).request
    neutral = chat(
        tools=[], tool_choice="none", response_format={"type": "text"}, n=1, best_of=1, suffix="", store=False
    ).request
    for request in (nulls, neutral):
        assert (request.sampling, request.prompts) == (plain.sampling, plain.prompts)


def test_every_parameter_reaches_the_engine() -> None:
    request = completion(
        temperature=0,
        top_p=0.5,
        top_k=40,
        min_p=0.05,
        repetition_penalty=1.1,
        presence_penalty=-1,
        frequency_penalty=2,
        logit_bias={"5": -100, "7": 1.5},
        min_tokens=2,
        seed=-(2**63),
        logprobs=3,
        max_tokens=9,
        stop=["\n", "END"],
        ignore_eos=True,
        cache_prompt=False,
        speculate=False,
    ).request
    assert request.sampling == SamplingParams(
        temperature=0.0,
        top_k=40,
        top_p=0.5,
        min_p=0.05,
        repetition_penalty=1.1,
        presence_penalty=-1.0,
        frequency_penalty=2.0,
        logit_bias=((5, -100.0), (7, 1.5)),
        min_tokens=2,
        seed=-(2**63),
        logprobs=3,
    )
    assert (request.max_tokens, request.stop.stops) == (9, ("\n", "END"))
    assert request.ignore_eos
    assert not request.cache_prompt
    assert not request.speculate


def test_aliases_and_spellings() -> None:
    assert completion(repeat_penalty=1.3).request.sampling.repetition_penalty == 1.3
    assert completion(top_k=-1).request.sampling.top_k == 0
    assert completion(top_k=10**18).request.sampling.top_k == VOCABULARY
    assert completion(logit_bias={"7": 1, "07": 2}).request.sampling.logit_bias == ((7, 2.0),)
    assert completion(seed=-1).request.sampling.seed is None
    assert completion(stop="x").request.stop.stops == ("x",)
    assert chat(max_completion_tokens=5).request.max_tokens == 5
    assert chat(logprobs=True).request.sampling.logprobs == 0
    assert chat(logprobs=True, top_logprobs=4).request.sampling.logprobs == 4
    assert chat(logprobs=False).request.sampling.logprobs is None
    assert completion(logprobs=0).request.sampling.logprobs == 0


def test_max_tokens_is_cut_to_the_context() -> None:
    assert completion(prompt=[1] * 60, max_tokens=10**9).request.max_tokens == CONTEXT - 60


def test_the_limit_of_tokens_has_other_names_and_a_value_for_none() -> None:
    """As llama.cpp's users write it: -1 is for as many as the context has room for."""
    for ask in (chat, completion):
        assert ask(n_predict=5).request.max_tokens == 5
        assert ask(n_predict=5, max_tokens=5).request.max_tokens == 5
        for name in ("max_tokens", "n_predict"):
            assert ask(**{name: -1}).request.max_tokens is None
    assert chat(max_completion_tokens=-1).request.max_tokens is None
    with pytest.raises(RequestError, match="'max_tokens' and 'n_predict' differ"):
        completion(max_tokens=-1, n_predict=5)


def test_a_prompt_has_four_forms() -> None:
    hi = (BOS, *tokens("hi"))
    assert completion(prompt="hi").request.prompts == (hi,)
    assert completion(prompt=["hi", "yo"]).request.prompts == (hi, (BOS, *tokens("yo")))
    assert completion(prompt=[1, 2]).request.prompts == ((1, 2),)
    assert completion(prompt=[[1, 2], [3]]).request.prompts == ((1, 2), (3,))


def test_choices_of_one_prompt_are_neighbours() -> None:
    parsed = completion(prompt=[[1], [2]], n=2, echo=True)
    assert parsed.request.prompts == ((1,), (1,), (2,), (2,))
    assert parsed.options.echo == ("\1", "\1", "\2", "\2")


def test_ids_are_unique_and_shared_with_the_reply() -> None:
    first, second = chat(), chat()
    assert first.request.id == first.options.id != second.request.id
    assert first.request.id.startswith("chatcmpl-")
    assert completion().request.id.startswith("cmpl-")


def test_any_model_name_is_echoed() -> None:
    assert chat(model="gpt-9").options.model == "gpt-9"
    assert chat().options.model == "bytes"


# --- templates --------------------------------------------------------------------------------------------


def test_a_chat_is_rendered_without_another_bos() -> None:
    parsed = chat(
        messages=[
            {"role": "developer", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        ]
    )
    assert parsed.request.prompts == (tokens("<system>be brief</system><user>a\nb</user><assistant>"),)


def test_the_template_gets_its_variables() -> None:
    parsed = chat(chat_template_kwargs={"shout": "!"}, add_generation_prompt=False)
    assert parsed.request.prompts == (tokens("<user>hi</user>!"),)


def test_the_last_message_can_be_continued() -> None:
    """Where the template ends it is found by a mark, for the text itself may occur anywhere."""
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "s"}]
    parsed = chat(messages=messages, continue_final_message=True)
    assert parsed.request.prompts == (tokens("<user>hi</user><assistant>s"),)
    assert "trim" in TEMPLATE


def test_unknown_fields_are_logged_and_ignored(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "cede.web"):
        chat(abracadabra=2, zzz=None, metadata={"a": "b"}, user="me")
    (record,) = caplog.records
    assert record.getMessage().endswith("ignored unknown fields: 'abracadabra, zzz'")


def test_unknown_fields_cannot_write_a_line_of_their_own(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "cede.web"):
        chat(**{"x\n2026-01-01 ERROR forged\x1b[2J": 1, "y" * 250: 2})
    (message,) = caplog.messages
    assert message.isprintable()
    assert len(message) < 400
