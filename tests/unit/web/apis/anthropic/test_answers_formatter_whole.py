"""Whole messages: their blocks, and what they hold while they grow."""

from __future__ import annotations

import pytest

from actors.core.generation import FinishReason
from runtime.chat.parts import CallArguments, CallEnd, CallStart, Part, TextPart
from tests.fakes.engine import fill, finished
from tests.unit.web.apis.anthropic.scripts import EVERYTHING, PAGE, events, options, whole
from web.apis.anthropic.answers import MessageFormatter
from web.bodies.json_encoding import iter_json


def test_everything_in_one_message() -> None:
    message = whole(EVERYTHING)
    assert [block["type"] for block in message["content"]] == ["thinking", "text", "tool_use", "tool_use"]
    assert message["content"][2]["input"] == {"city": "Rome"}
    assert message["stop_reason"] == "tool_use"
    assert message["usage"]["cache_read_input_tokens"] == 3


def test_two_calls_have_different_ids_and_each_answer_its_own() -> None:
    ids = [block["id"] for block in whole(EVERYTHING)["content"][2:]]
    other = [block["id"] for block in whole(EVERYTHING, id="msg_2")["content"][2:]]
    assert len({*ids, *other}) == 4
    assert all(call_id.startswith("toolu_") for call_id in ids)


def test_arguments_are_shown_as_they_were_written() -> None:
    numbers = '{"n": 12345678901234567890123, "x": 1e400, "deep": ' + "[" * 5_000 + "]" * 5_000 + "}"
    answer: list[list[Part]] = [[CallStart(0, "t"), CallArguments(0, numbers), CallEnd(0)], []]
    builder = MessageFormatter(options(answer), PAGE)
    fill(builder, events(answer))
    assert numbers.encode() in b"".join(iter_json(builder.result()))


@pytest.mark.parametrize("reason", [FinishReason.STOP, FinishReason.LENGTH])
@pytest.mark.parametrize("arguments", ["", '{"city": "Rome", "days": [1, 2', "{"])
def test_a_broken_call_is_no_call_but_text(arguments: str, reason: FinishReason) -> None:
    message = whole(
        [[TextPart("So.")], [CallStart(0, "t"), CallArguments(0, arguments)], [TextPart("x")], []],
        finished(reason=reason),
    )
    text = f'So.\n{{"name": "t", "arguments": {arguments}x'
    assert message["content"] == [{"type": "text", "text": text}]
    assert message["stop_reason"] == ("end_turn" if reason is FinishReason.STOP else "max_tokens")


def test_it_knows_how_much_it_holds() -> None:
    builder = MessageFormatter(options(EVERYTHING), PAGE)
    sizes = []
    for event in events(EVERYTHING):
        fill(builder, [event])
        sizes.append(len(builder))
    assert sizes == sorted(sizes)
    assert sizes[-1] >= len("hm, soLet me see.weatherclock")
