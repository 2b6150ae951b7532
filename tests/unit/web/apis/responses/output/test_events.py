"""The events of a response, held against OpenAI's own models and against each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.core.generation import Event, Failed, FinishReason
from runtime.chat.parts import CallArguments, CallEnd, CallStart, Part, ReasoningPart, TextPart
from runtime.errors import QueueFull, StepFailed
from runtime.sampling.tokens import TokenLogprobs
from tests.fakes.engine import fill, finished, say, token
from tests.unit.web.apis.responses.asking import Json, as_json, ask, check_stream, read_events, rebuilt
from web.apis.responses.output.envelope import ResponseOptions
from web.apis.responses.output.events import ResponseFormatter
from web.generation.asked import Asked

TOOLS = [
    {"type": "function", "name": "f", "parameters": {"type": "object"}},
    {"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "lark", "definition": "start: /a/"}},
]


class MarkedParser:
    """Reads a made-up format: `[r..]` is thought, `[f..]` and `[c..]` are calls; what begins a marker is held back."""

    def __init__(self, before_names: str = "") -> None:
        self._before_names = before_names
        self._mode = ""
        self._held = False
        self._calls = -1

    def push(self, text: str) -> Sequence[Part]:
        """Return the parts of a text; see `OutputParser`."""
        parts: list[Part] = []
        for letter in text:
            if self._held:
                self._held = False
                self._mode = letter
                if letter in "fc":
                    self._calls += 1
                    parts.append(CallStart(self._calls, self._before_names + letter))
            elif letter == "[":
                self._held = True
            elif letter == "]":
                if self._mode in ("f", "c"):
                    parts.append(CallEnd(self._calls))
                self._mode = ""
            else:
                parts.append(self._part(letter))
        return parts

    def _part(self, text: str) -> Part:
        if self._mode == "r":
            return ReasoningPart(text)
        return CallArguments(self._calls, text) if self._mode else TextPart(text)

    def finish(self, *, cut: bool = False) -> Sequence[Part]:
        """Return nothing, for a marker that is not whole is dropped here."""
        return ()


def parsed(**fields: object) -> Asked[ResponseOptions]:
    """A request whose output is in the made-up format; no chat format of the fake model's has tools."""
    made = ask(**fields)
    return replace(made, options=replace(made.options, parser=MarkedParser, custom=frozenset("c")))


def streamed(asked: Asked[ResponseOptions], events: Sequence[Event]) -> list[Json]:
    """The whole stream for these events of the engine's."""
    writer = ResponseFormatter(asked.options)
    data = writer.opening()
    for event in events:
        data += b"".join(writer.write(event))
    assert writer.finished is not writer.failed
    if writer.finished:
        data += b"".join(writer.closing())
    return read_events(data)


def whole(asked: Asked[ResponseOptions], events: Sequence[Event]) -> Json:
    """The response for these events of the engine's, as one that is sent whole."""
    collector = ResponseFormatter(asked.options)
    fill(collector, events)
    return as_json(collector.result())


def kinds(events: Sequence[Json]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def test_a_text() -> None:
    events = streamed(ask(), say("Hel", "lo"))
    response = check_stream(events)
    assert kinds(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert rebuilt(events) == response["output"]
    assert response["output"][0]["content"][0]["text"] == "Hello"
    assert response["usage"]["output_tokens"] == 2


def test_everything_at_once() -> None:
    events = streamed(parsed(), say("[r", "hm", "]", "A", "[fxy]", "[cz", "z]", "B"))
    response = check_stream(events)
    assert rebuilt(events) == response["output"]
    shown = [
        (item["type"], item["status"] if item["type"] != "custom_tool_call" else None) for item in response["output"]
    ]
    assert shown == [
        ("reasoning", "completed"),
        ("message", "completed"),
        ("function_call", "completed"),
        ("custom_tool_call", None),
        ("message", "completed"),
    ]
    thought, first, function, custom, second = response["output"]
    assert thought["content"] == [{"type": "reasoning_text", "text": "hm"}]
    assert (first["content"][0]["text"], second["content"][0]["text"]) == ("A", "B")
    assert (function["name"], function["arguments"]) == ("f", "xy")
    assert (custom["name"], custom["input"]) == ("c", "zz")
    assert function["call_id"] != custom["call_id"]
    assert len({item["id"] for item in response["output"]}) == 5
    assert response["usage"]["output_tokens_details"] == {"reasoning_tokens": 2}  # the marker and what it holds


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(0, 40), max_size=12), st.sampled_from(["[rhé]A[fx{}][cz]B", "plain 𝄞 text", "[rx]", "[f]"]))
def test_however_the_text_is_split_the_response_is_the_same(places: list[int], text: str) -> None:
    cuts = sorted({0, len(text), *(place for place in places if place < len(text))})
    pieces = [text[start:end] for start, end in pairwise(cuts)]
    asked = parsed()
    events = streamed(asked, say(*pieces))
    response = check_stream(events)
    assert rebuilt(events) == response["output"]
    plain = streamed(asked, say(*text))[-1]["response"]
    assert response["output"] == plain["output"]
    collected = whole(asked, say(*pieces))
    for each in (response, collected):
        each["completed_at"] = each["usage"] = None
    assert collected == response


@pytest.mark.parametrize(
    ("reason", "status", "last", "details"),
    [
        (FinishReason.LENGTH, "incomplete", "response.incomplete", {"reason": "max_output_tokens"}),
        (FinishReason.CANCELLED, "cancelled", "response.incomplete", None),
        (FinishReason.STOP, "completed", "response.completed", None),
    ],
)
def test_how_it_ends(reason: FinishReason, status: str, last: str, details: Json | None) -> None:
    events = streamed(parsed(), [token("[rx"), finished(reason=reason)])
    response = check_stream(events)
    assert (response["status"], events[-1]["type"], response["incomplete_details"]) == (status, last, details)
    assert response["output"][0]["status"] == ("completed" if status == "completed" else "incomplete")
    assert (response["completed_at"] is not None) is (status == "completed")


@pytest.mark.parametrize("reason", [FinishReason.STOP, FinishReason.LENGTH])
@pytest.mark.parametrize("behind", ["", "[rmore", "[fx}"])
def test_a_broken_call_is_incomplete(reason: FinishReason, behind: str) -> None:
    events = streamed(parsed(), [token("[f{"), token(behind), finished(reason=reason)])
    (item,) = [item for item in check_stream(events)["output"] if item["type"] == "function_call"][:1]
    assert item["status"] == "incomplete"


@pytest.mark.parametrize(
    ("error", "code"), [(StepFailed("no"), "server_error"), (QueueFull("full"), "rate_limit_exceeded")]
)
def test_a_failure_has_what_there_is(error: StepFailed, code: str) -> None:
    events = streamed(parsed(), [*map(token, ("[rx]", "A")), Failed(0, error)])
    response = check_stream(events)
    assert (events[-1]["type"], response["status"]) == ("response.failed", "failed")
    assert response["error"] == {"code": code, "message": str(error)}
    assert [item["status"] for item in response["output"]] == ["completed", "incomplete"]


def test_an_error_of_the_server_itself_does_not_tell_what_it_was() -> None:
    writer = ResponseFormatter(ask().options)
    data = writer.opening() + b"".join(writer.write(token("a"))) + writer.fail_internally()
    response = check_stream(read_events(data))
    assert response["error"]["message"] == "The server failed to answer; its log says why."
    assert not list(writer.write(token("b")))


def test_nothing_said_is_no_item() -> None:
    response = check_stream(streamed(ask(), [finished()]))
    assert (response["status"], response["output"]) == ("completed", [])


def test_signs_of_life_are_events_with_numbers_of_their_own() -> None:
    writer = ResponseFormatter(ask().options)
    data = writer.opening() + writer.keep_alive() + b"".join(writer.write(token("a"))) + writer.keep_alive()
    data += b"".join(writer.write(finished())) + b"".join(writer.closing())
    events = read_events(data)
    check_stream(events)
    assert kinds(events).count("in_progress") == 3


def test_log_probabilities_stay_with_their_texts() -> None:
    top = TokenLogprobs(-0.5, ((65, -0.5), (66, -1.0)))
    body = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
    asked = ask(**body)
    asked = replace(asked, options=replace(asked.options, parser=MarkedParser))
    events = streamed(asked, [token(text, logprobs=top) for text in ("[", "r", "x", "]", "A", "B")] + [finished()])
    response = check_stream(events)
    message = response["output"][-1]
    shown = [entry["token"] for entry in message["content"][0]["logprobs"]]
    assert shown == ["]", "A", "B"]  # what ends the thoughts is told with the text behind it
    assert message["content"][0]["logprobs"][1] == {
        "token": "A",
        "bytes": [65],
        "logprob": -0.5,
        "top_logprobs": [
            {"token": "A", "bytes": [65], "logprob": -0.5},
            {"token": "B", "bytes": [66], "logprob": -1.0},
        ],
    }
    deltas = [entry for event in events if event["type"] == "response.output_text.delta" for entry in event["logprobs"]]
    assert deltas == message["content"][0]["logprobs"]


def test_the_response_repeats_what_was_asked() -> None:
    fields: Json = {
        "instructions": "be brief",
        "temperature": 0.5,
        "top_p": 0.25,
        "max_output_tokens": 7,
        "metadata": {"k": "v"},
        "reasoning": {"effort": "medium", "summary": "auto"},
        "text": {"verbosity": "low", "format": {"type": "text"}},
        "include": ["reasoning.encrypted_content"],
        "truncation": "disabled",
        "user": "u",
        "prompt_cache_key": "p",
        "safety_identifier": "s",
        "service_tier": "flex",
        "max_tool_calls": 3,
        "parallel_tool_calls": False,
        "store": False,
        "model": "another name",
        "tools": [
            {"type": "function", "name": "f", "description": None, "parameters": {"type": "object"}, "strict": True},
            {"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "regex", "definition": "a+"}},
            {"type": "custom", "name": "t", "description": "d", "format": {"type": "text"}},
        ],
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "custom", "name": "t"}]},
    }
    response = check_stream(streamed(ask(**fields), say("a")))
    del fields["include"]  # which is not shown
    expected = fields | {"reasoning": {"effort": "medium", "summary": None}, "service_tier": "flex"}
    assert {name: response[name] for name in fields} == expected


def test_a_call_of_a_tool_in_a_namespace_has_both_names_apart() -> None:
    space = {"type": "namespace", "name": "m", "description": "d", "tools": TOOLS}
    asked = ask(tools=[space])
    assert asked.options.custom == {"m__c"}
    apart = replace(asked.options, parser=lambda: MarkedParser("m__"))
    response = check_stream(streamed(replace(asked, options=apart), say("[fxy]", "[cz]")))
    function, custom = response["output"]
    assert (function["type"], function["namespace"], function["name"]) == ("function_call", "m", "f")
    assert (custom["type"], custom["namespace"], custom["name"]) == ("custom_tool_call", "m", "c")
    assert response["tools"] == [space]
    again = ask(tools=[space], input=[{"role": "user", "content": "hi"}, function, custom])
    assert [item["namespace"] for item in again.options.input[1:]] == ["m", "m"]


def test_what_is_held_is_told() -> None:
    held: list[int] = []
    writer = ResponseFormatter(ask().options)
    writer.set_size = held.append
    for text in ("ab", "cde"):
        list(writer.write(token(text)))
    assert held == [2, 5]
    writer.cut(QueueFull("too much"))
    assert read_events(b"".join(writer.write(token("x"))))[-1]["type"] == "response.failed"
    assert writer.failed
