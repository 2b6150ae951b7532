"""Streams: their events fit the official client's models, and say what the whole message says."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.core.generation import Failed, FinishReason
from runtime.chat.parts import CallArguments, CallEnd, CallStart, Part, ReasoningPart, TextPart
from runtime.errors import QueueTimeout, StepFailed
from tests.fakes.engine import finished, token
from tests.unit.web.apis.anthropic.scripts import (
    CALL,
    EVERYTHING,
    Json,
    Parts,
    checked,
    gathered,
    options,
    streamed,
    whole,
)
from web.apis.anthropic.answers import PING, MessageFormatter

ENDS = ["message_delta", "message_stop"]


def types(events: list[Json]) -> list[str]:
    return [event["type"] for event in events]


def test_a_text() -> None:
    sent = streamed([[TextPart("Hel")], [TextPart("lo")], []])
    assert types(sent) == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        *ENDS,
    ]
    assert sent[0]["message"] == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "any",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 7,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 0,
            "output_tokens_details": {"thinking_tokens": 0},
        },
    }
    assert sent[2] == {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}}
    assert sent[-2] == {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {
            "input_tokens": 4,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 3,
            "output_tokens": 5,
            "output_tokens_details": {"thinking_tokens": 0},
        },
    }


def test_thought_text_and_calls_are_blocks_one_after_the_other() -> None:
    sent = streamed(EVERYTHING)
    blocks = gathered(sent)["content"]
    assert [block["type"] for block in blocks] == ["thinking", "text", "tool_use", "tool_use"]
    assert blocks[0] == {"type": "thinking", "thinking": "hm, so", "signature": "msg_1"}
    assert blocks[1] == {"type": "text", "text": "\n\nLet me see.\n"}
    assert (blocks[2]["name"], blocks[2]["input"]) == ("weather", {"city": "Rome"})
    assert (blocks[3]["name"], blocks[3]["input"]) == ("clock", {})
    assert sent[-2]["delta"]["stop_reason"] == "tool_use"


def test_a_thought_is_signed_at_its_end() -> None:
    sent = streamed([[ReasoningPart("hm")], [TextPart("So.")], []])
    assert [event["delta"]["type"] for event in sent if event["type"] == "content_block_delta"] == [
        "thinking_delta",
        "signature_delta",
        "text_delta",
    ]


def test_a_thought_that_is_not_to_be_shown_is_a_block_without_text() -> None:
    (thought, text) = gathered(streamed([[ReasoningPart("hm")], [TextPart("So.")], []], show_thinking=False))["content"]
    assert thought == {"type": "thinking", "thinking": "", "signature": "msg_1"}
    assert text["text"] == "So."


def test_blank_text_is_no_block() -> None:
    sent = streamed([[TextPart(" ")], [TextPart("\n")], CALL, [TextPart("\n")], []])
    assert [block["type"] for block in gathered(sent)["content"]] == ["tool_use"]


def test_an_answer_of_nothing_has_no_blocks() -> None:
    assert types(streamed([[], []])) == ["message_start", *ENDS]


def test_what_comes_with_the_end_is_written_before_it() -> None:
    sent = streamed([[TextPart("a")], [TextPart("b")]])
    assert gathered(sent)["content"][0]["text"] == "ab"
    assert types(sent)[-3:] == ["content_block_stop", *ENDS]


def test_a_call_that_was_cut_off_ends_its_block() -> None:
    sent = streamed([CALL[:2], []], finished(reason=FinishReason.LENGTH))
    assert types(sent)[-3:] == ["content_block_stop", *ENDS]
    assert sent[-2]["delta"]["stop_reason"] == "max_tokens"


def test_a_ping_comes_after_the_beginning_which_comes_once() -> None:
    writer = MessageFormatter(options([[TextPart("a")], []]))
    silent = writer.keep_alive()
    assert types(checked(silent)) == ["message_start", "ping"]
    assert writer.keep_alive() == PING == b'event: ping\ndata: {"type":"ping"}\n\n'
    first = b"".join(writer.write(token("0")))
    assert types(checked(first)) == ["content_block_start", "content_block_delta"]


@pytest.mark.parametrize("begun", [True, False])
def test_an_error_is_an_event_and_the_last(begun: bool) -> None:
    writer = MessageFormatter(options([[TextPart("a")], []]))
    written = b"".join(writer.write(token("0"))) if begun else b""
    written += b"".join(writer.write(Failed(0, QueueTimeout("late"))))
    assert checked(written)[-1] == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "late"},
        "request_id": "msg_1",
    }
    assert writer.failed
    assert not list(writer.write(token("0")))


def test_an_error_of_the_servers_own_says_nothing_of_itself(caplog: pytest.LogCaptureFixture) -> None:
    writer = MessageFormatter(options([]))
    assert checked(writer.fail_internally())[0]["error"]["type"] == "api_error"
    assert writer.failed
    writer = MessageFormatter(options([]))
    list(writer.write(Failed(0, StepFailed("broken"))))
    assert caplog.messages == ["StepFailed: broken"]


TEXTS = st.text(max_size=6)
ARGUMENTS = st.dictionaries(TEXTS, st.integers() | TEXTS, max_size=3)


@st.composite
def scripts(draw: st.DrawFn) -> Parts:
    """An answer of any parts, in any groups."""
    parts: list[Part] = []
    calls = 0
    for kind in draw(st.lists(st.sampled_from(["text", "thought", "call"]), max_size=8)):
        if kind == "text":
            parts.append(TextPart(draw(TEXTS)))
        elif kind == "thought":
            parts.append(ReasoningPart(draw(TEXTS)))
        else:
            given = json.dumps(draw(ARGUMENTS), ensure_ascii=draw(st.booleans()))
            cut = draw(st.integers(0, len(given)))
            parts.append(CallStart(calls, "tool"))
            parts += [CallArguments(calls, piece) for piece in (given[:cut], given[cut:])]
            parts.append(CallEnd(calls))
            calls += 1
    script: Parts = [[]]
    for part in parts:
        if draw(st.booleans()):
            script.append([])
        script[-1].append(part)
    return script


@given(scripts(), st.booleans())
def test_a_stream_says_what_the_whole_message_says(script: Parts, shown: bool) -> None:
    assert gathered(streamed(script, show_thinking=shown)) == whole(script, show_thinking=shown)
