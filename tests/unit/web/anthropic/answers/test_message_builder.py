"""Whole messages: their blocks, and what they hold while they grow."""

from __future__ import annotations

import pytest

from actors.core.generation import FinishReason
from runtime.chat.parts import CallArguments, CallStart
from tests.fakes.engine import fill, finished
from tests.unit.web.anthropic.answers.scripts import EVERYTHING, PAGE, events, options, whole
from web.anthropic.answers.message_builder import MessageBuilder


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


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ("", {}),
        ("{}", {}),
        ('{"city": "Rome", "days": [1, 2', {"city": "Rome", "days": [1, 2]}),
        ('{"city": "Ro', {}),
        ("{", {}),
        ("[1]", {}),
        ('{"n": 12345678901234567890123}', {"n": 12345678901234567890123}),
    ],
)
def test_arguments_that_were_cut_off_are_shown_as_far_as_they_came(arguments: str, given: object) -> None:
    message = whole([[CallStart(0, "t"), CallArguments(0, arguments)], []], finished(reason=FinishReason.LENGTH))
    assert message["content"][0]["input"] == given
    assert message["stop_reason"] == "max_tokens"


def test_arguments_that_are_no_json_are_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    message = whole([[CallStart(0, "t"), CallArguments(0, "city: Rome")], []])
    assert message["content"][0]["input"] == {}
    assert len(caplog.records) == 1


def test_it_knows_how_much_it_holds() -> None:
    builder = MessageBuilder(options(EVERYTHING), PAGE)
    sizes = []
    for event in events(EVERYTHING):
        fill(builder, [event])
        sizes.append(len(builder))
    assert sizes == sorted(sizes)
    assert sizes[-1] >= len("hm, soLet me see.weatherclock")
