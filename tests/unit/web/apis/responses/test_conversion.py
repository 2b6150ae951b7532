"""Bodies as conversations: items, tools, what is refused, and by which name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runtime.errors import RequestError
from runtime.grammar.grammar import GrammarKind
from tests.fakes.engine import model
from tests.unit.web.apis.responses.asking import CONTEXT, Json, ask
from tests.unit.web.bounds import unbounded
from web.apis.responses.conversion import History, prepare, read_body
from web.apis.responses.input.schemas import ResponseBody
from web.storage.objects import Item, ItemPage


def body(**fields: Any) -> ResponseBody:  # noqa: ANN401
    return read_body(json.dumps({"input": "hi"} | fields).encode(), model(context_length=CONTEXT))


def refusal(**fields: Any) -> RequestError:  # noqa: ANN401
    with pytest.raises(RequestError) as caught:
        ask(**fields)
    return caught.value


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({"type": "web_search_call", "id": "ws_1"}, "input.0.type"),
        ({"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}, "input.0.content.0.type"),
        ({"role": "user", "content": [{"type": "input_text"}]}, "input.0.content.0.text"),
        ({"type": "function_call_output", "call_id": "c", "output": [{"type": "input_file"}]}, "input.0.output.0.type"),
        ({"role": "tool", "content": "x"}, "input.0.role"),
        ({"type": "function_call", "name": "f", "arguments": "{}"}, "input.0.call_id"),
    ],
)
def test_what_an_item_has_that_is_not_known_is_named(item: Json, param: str) -> None:
    assert refusal(input=[item]).param == param


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"conversation": 5}, "conversation"),
        ({"conversation": {}}, "conversation.id"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"stop": ["x"]}, "stop"),
        ({"truncation": "some"}, "truncation"),
        ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema"),
        ({"n": 2}, "n"),
        ({"reasoning": {"effort": "huge"}}, "reasoning.effort"),
        ({"input": []}, "input"),
        ({"input": None}, "input"),
        ({"background": True, "store": False}, "background"),
        ({"stream_options": {}}, "stream_options"),
        ({"temperature": 3}, "temperature"),
        ({"max_output_tokens": -1}, "max_output_tokens"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "web_search"}, "tools": [{"type": "web_search"}]}, "tool_choice.type"),
        ({"tool_choice": {"type": "function", "name": "f"}}, "tool_choice"),
        ({"tool_choice": {"type": "allowed_tools", "tools": []}}, "tool_choice.tools"),
        ({"tools": [{"type": "function", "name": "f"}] * 2}, "tools"),
        ({"tools": [{"type": "function"}]}, "tools.0.name"),
        ({"tool_choice": {"type": "function"}}, "tool_choice.name"),
        ({"metadata": {"k": "v" * 513}}, "metadata.k"),
    ],
)
def test_what_is_wrong_is_named(fields: Json, param: str) -> None:
    assert refusal(**fields).param == param


def test_tools_of_openai_s_servers_are_ignored_with_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "cede.web"):
        ask(tools=[{"type": "web_search", "search_context_size": "low"}, {"type": "file_search"}])
    assert caplog.messages == ["ignored tools that this server does not have: 'file_search, web_search'"]


def test_unknown_fields_are_ignored_with_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "cede.web"):
        ask(whatever=1)
    assert caplog.messages[0].endswith("ignored unknown fields: 'whatever'")


def test_every_field_is_bounded() -> None:
    assert unbounded(ResponseBody.model_json_schema()) == []


def test_the_engine_is_asked_what_the_body_says() -> None:
    request = ask(temperature=0.5, top_p=0.5, max_output_tokens=9, seed=3, top_logprobs=2, ignore_eos=True).request
    assert (request.sampling.temperature, request.sampling.top_p, request.sampling.seed) == (0.5, 0.5, 3)
    assert (request.max_tokens, request.sampling.logprobs, request.ignore_eos) == (9, 2, True)
    assert bytes(request.prompts[0]) == b"<user>hi</user><assistant>"
    assert ask().request.sampling.logprobs is None
    assert ask(max_output_tokens=10**9).request.max_tokens == CONTEXT - len(request.prompts[0])


def test_the_format_of_the_text_is_what_the_answer_is_held_to() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    named = {"type": "json_schema", "name": "n", "schema": schema, "strict": True}
    asked = ask(text={"format": named})
    assert asked.options.asked["text"]["format"] == named | {"description": None}
    assert asked.request.grammar is not None
    assert (asked.request.grammar.kind, json.loads(asked.request.grammar.source)) == (GrammarKind.JSON_SCHEMA, schema)
    assert asked.request.grammar.param == "text.format.schema"
    any_object = ask(text={"format": {"type": "json_object"}}).request.grammar
    assert any_object is not None
    assert json.loads(any_object.source) == {"type": "object"}
    assert ask(text={"format": {"type": "text"}}).request.grammar is None


def test_the_beginning_of_a_long_conversation_may_be_dropped() -> None:
    items = [{"role": "user", "content": letter * 2000} for letter in "abcd"]
    assert refusal(input=items).code == "context_length_exceeded"
    shown = bytes(ask(input=items, truncation="auto").request.prompts[0])
    assert shown == b"<user>" + b"c" * 2000 + b"</user><user>" + b"d" * 2000 + b"</user><assistant>"


def test_a_response_that_is_continued_comes_first_without_its_instructions() -> None:
    first = {"type": "message", "id": "msg_0", "role": "user", "content": [{"type": "input_text", "text": "a"}]}
    said = {"type": "message", "id": "m", "role": "assistant", "content": "b", "status": "x"}
    before = [Item(str(each["id"]), json.dumps(each).encode()) for each in (first, said)]
    history = History(ItemPage(before, has_more=False), {"m": before[1].body})
    asked = body(instructions="now", input=[{"type": "item_reference", "id": "m"}, {"role": "user", "content": "c"}])
    prepared = prepare(asked, history, model(context_length=CONTEXT))
    shown = (
        b"<system>now</system><user>a</user><assistant>b</assistant><assistant>b</assistant><user>c</user><assistant>"
    )
    assert bytes(prepared.request.prompts[0]) == shown
    reference, own = prepared.options.input
    assert (reference["id"], own["id"]) == ("m", f"msg_{prepared.options.key}_i1")
