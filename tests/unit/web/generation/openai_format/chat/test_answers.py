"""Parts of an answer as OpenAI's clients read them, in a stream and whole."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from actors.core.generation import Event, Finished
from actors.core.receipts import CancelReason
from tests.fakes.engine import TIMINGS, fill, finished, say, token
from tests.unit.web.generation.openai_format.answers.streams import choices, cut_short, written
from tests.unit.web.generation.openai_format.chat.scripts import SHELL, WEATHER, scripted
from web.bodies.json_encoding import iter_json
from web.generation.asked import Asked
from web.generation.openai_format.answers.options import ResponseOptions
from web.generation.openai_format.requests import Settings

CALLS = ("think:hm", "call:weather", 'args:{"city"', 'args:: "Rome"}', "end", "call:shell", "args:ls -l", "end")


def whole(parsed: Asked[ResponseOptions], *events: Event) -> Any:  # noqa: ANN401
    """Return the response that these events become."""
    collector = parsed.formatter(1 << 14)
    fill(collector, events)
    return json.loads(b"".join(iter_json(collector.result())))


def test_calls_are_streamed_name_first_and_then_their_arguments() -> None:
    parsed = scripted(tools=[WEATHER, SHELL], stream=True)
    deltas = [choice["delta"] for choice in choices(written(parsed, *say(*CALLS)))]
    first, second = (delta["tool_calls"][0]["id"] for delta in deltas if "id" in (delta.get("tool_calls") or [{}])[0])
    assert first != second
    assert deltas == [
        {"role": "assistant", "content": ""},
        {"reasoning_content": "hm"},
        {
            "tool_calls": [
                {"index": 0, "id": first, "type": "function", "function": {"name": "weather", "arguments": ""}}
            ]
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"city"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ': "Rome"}'}}]},
        {"tool_calls": [{"index": 1, "id": second, "type": "custom", "custom": {"name": "shell", "input": ""}}]},
        {"tool_calls": [{"index": 1, "custom": {"input": "ls -l"}}]},
        {},
    ]
    assert choices(written(parsed, *say(*CALLS)))[-1]["finish_reason"] == "tool_calls"


def test_a_whole_answer_says_the_same() -> None:
    answer = whole(scripted(tools=[WEATHER, SHELL]), *say(*CALLS))
    (choice,) = answer["choices"]
    message = choice["message"]
    assert (message["content"], message["reasoning_content"], choice["finish_reason"]) == (None, "hm", "tool_calls")
    function, custom = message["tool_calls"]
    assert function["function"] == {"name": "weather", "arguments": '{"city": "Rome"}'}
    assert (custom["type"], custom["custom"]) == ("custom", {"name": "shell", "input": "ls -l"})
    assert answer["usage"]["completion_tokens_details"] == {"reasoning_tokens": 1}


def test_the_ids_of_calls_are_the_same_in_both() -> None:
    parsed = scripted(tools=[WEATHER], stream=True)
    (chunk,) = (c for c in choices(written(parsed, *say("call:weather", "end"))) if c["delta"].get("tool_calls"))
    (choice,) = whole(parsed, *say("call:weather", "end"))["choices"]
    assert choice["message"]["tool_calls"][0]["id"] == chunk["delta"]["tool_calls"][0]["id"]


def test_who_asks_with_functions_is_answered_with_a_function_call() -> None:
    parsed = scripted(functions=[WEATHER["function"]], stream=True)
    events = say("call:weather", "args:{}", "end")
    deltas = [choice["delta"] for choice in choices(written(parsed, *events))]
    assert deltas[1:3] == [
        {"function_call": {"name": "weather", "arguments": ""}},
        {"function_call": {"arguments": "{}"}},
    ]
    (choice,) = whole(parsed, *events)["choices"]
    assert choice["message"]["function_call"] == {"name": "weather", "arguments": "{}"}
    assert choice["finish_reason"] == choices(written(parsed, *events))[-1]["finish_reason"] == "function_call"


def test_the_field_for_what_the_model_thinks_can_be_another() -> None:
    parsed = scripted(Settings(reasoning="reasoning"), stream=True)
    deltas = [choice["delta"] for choice in choices(written(parsed, *say("think:hm", "yes")))]
    assert deltas[1:3] == [{"reasoning": "hm"}, {"content": "yes"}]
    assert whole(parsed, *say("think:hm", "yes"))["choices"][0]["message"]["reasoning"] == "hm"


def test_who_was_cancelled_is_told_in_a_word_that_clients_know_and_in_ours() -> None:
    parsed = scripted(stream=True)
    cut = cut_short(CancelReason.OPERATOR)
    for choice in (choices(written(parsed, token("a"), cut))[-1], whole(parsed, token("a"), cut)["choices"][0]):
        assert (choice["finish_reason"], choice["cede"]) == ("length", {"cancelled": "operator"})


def test_a_sign_of_life_is_of_a_choice_that_has_not_ended() -> None:
    writer = scripted(stream=True, n=2).formatter()
    assert json.loads(writer.keep_alive()[6:])["choices"][0]["index"] == 0  # before the first token
    for event in say("a"):
        list(writer.write(event))
    (choice,) = json.loads(writer.keep_alive()[6:])["choices"]
    assert choice == {"index": 1, "logprobs": None, "finish_reason": None, "delta": {}}


def test_the_usage_so_far_is_in_every_chunk_for_those_who_ask() -> None:
    parsed = scripted(stream=True, stream_options={"continuous_usage_stats": True})
    counts = [chunk["usage"]["completion_tokens"] for chunk in written(parsed, *say("a", "b"))[:-1]]
    assert counts == [0, 1, 2, 2]


def test_the_usage_so_far_is_that_of_all_tokens_also_beside_text_that_was_held_back() -> None:
    parsed = scripted(stream=True, n=2, stream_options={"continuous_usage_stats": True})
    events = [token("a"), finished(text="b"), token("c", index=1), finished(text="d", index=1)]
    chunks = written(parsed, *events)[:-1]
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks] == [0, 1, 1, 1, 1, 2, 2, 2]
    assert "".join(choice["delta"].get("content", "") for choice in choices(chunks)) == "abcd"


def test_a_prediction_is_drafted_from_and_accounted_for() -> None:
    prediction = {"type": "content", "content": [{"type": "text", "text": "ab"}]}
    parsed = scripted(prediction=prediction)
    assert parsed.request.prediction == tuple(b"ab")
    *tokens, last = say("a", "b")
    assert isinstance(last, Finished)
    drafted = replace(last, timings=replace(TIMINGS, draft_n=5, draft_n_accepted=3))
    details = whole(parsed, *tokens, drafted)["usage"]["completion_tokens_details"]
    assert details == {"reasoning_tokens": 0, "accepted_prediction_tokens": 3, "rejected_prediction_tokens": 2}


@pytest.mark.parametrize(
    ("asked", "used"),
    [
        ({"service_tier": "flex"}, "flex"),
        ({"service_tier": "priority"}, "priority"),
        ({"service_tier": "auto"}, "default"),
        ({"service_tier": "flex", "priority": -20}, "priority"),
    ],
)
def test_a_service_tier_is_answered_with_the_one_that_was_used(asked: dict[str, Any], used: str) -> None:
    assert whole(scripted(**asked), *say("a"))["service_tier"] == used
    assert "service_tier" not in whole(scripted(), *say("a"))
