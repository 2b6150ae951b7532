"""Reason why a message ended, and what it took."""

from __future__ import annotations

from dataclasses import replace

import pytest

from actors.core.generation import Failed, FinishReason
from actors.core.receipts import CancelReason
from runtime.chat.parts import Part, ReasoningPart, TextPart
from tests.fakes.engine import finished
from tests.unit.web.apis.anthropic.scripts import CALL, Parts, events, options, streamed, whole
from web.apis.anthropic.answers import MessageParts

SAID: Parts = [[TextPart("a")], []]
STOPPED = replace(finished(), stop_string="###")


@pytest.mark.parametrize(
    ("script", "end", "room", "reason", "sequence"),
    [
        (SAID, finished(), None, "end_turn", None),
        (SAID, STOPPED, None, "stop_sequence", "###"),
        ([CALL, []], finished(), None, "tool_use", None),
        ([CALL, []], STOPPED, None, "stop_sequence", "###"),
        (SAID, finished(reason=FinishReason.LENGTH), None, "max_tokens", None),
        ([CALL, []], finished(reason=FinishReason.LENGTH), None, "max_tokens", None),
        (SAID, finished(reason=FinishReason.LENGTH), 5, "model_context_window_exceeded", None),
        (SAID, finished(), 5, "end_turn", None),
        (SAID, finished(reason=FinishReason.CANCELLED), 5, "max_tokens", None),
    ],
)
def test_why_a_message_ended(script: Parts, end: object, room: int | None, reason: str, sequence: str | None) -> None:
    message = whole(script, end, room=room)  # type: ignore[arg-type]  # pytest's parameters
    assert (message["stop_reason"], message["stop_sequence"]) == (reason, sequence)


def test_the_prompts_tokens_are_the_sum_of_three() -> None:
    usage = whole(SAID, finished(tokens=5, cached=3))["usage"]
    assert usage == {
        "input_tokens": 4,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 3,
        "output_tokens": 5,
        "output_tokens_details": {"thinking_tokens": 0},
    }


def test_thought_is_counted() -> None:
    script: Parts = [[ReasoningPart("hm")], [], [ReasoningPart("so")], [TextPart("So.")], []]
    assert whole(script)["usage"]["output_tokens_details"] == {"thinking_tokens": 3}


def test_an_answer_that_was_cut_short_says_by_whom() -> None:
    cut = replace(finished(reason=FinishReason.CANCELLED), cancelled=CancelReason.DEADLINE)
    message, sent = whole(SAID, cut), streamed(SAID, cut)
    assert message["stop_reason"] == sent[-2]["delta"]["stop_reason"] == "max_tokens"
    assert message["cede"] == sent[-2]["cede"] == {"cancelled": "deadline"}
    assert "cede" not in whole(SAID)


def parts_of(said: Parts) -> list[list[Part]]:
    parts = MessageParts(options(said), whole_calls=False)
    return [parts.of(event) for event in events(said) if not isinstance(event, Failed)]


def test_blanks_are_held_until_a_text_follows() -> None:
    said: Parts = [[TextPart("")], [TextPart(" ")], [TextPart("\n")], [TextPart("a")], [TextPart(" ")], [*CALL], []]
    assert parts_of(said) == [[], [], [], [TextPart(" \na")], [TextPart(" ")], CALL, []]


def test_blanks_before_a_call_are_forgotten() -> None:
    assert parts_of([[TextPart(" ")], CALL, [TextPart("b")], []]) == [[], CALL, [TextPart("b")], []]
