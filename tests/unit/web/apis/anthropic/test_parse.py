"""A body as what the engine is to do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.types.beta.message_create_params import MessageCreateParamsBase as BetaParamsBase
from anthropic.types.beta.message_create_params import MessageCreateParamsStreaming as BetaParams
from anthropic.types.message_create_params import MessageCreateParamsBase, MessageCreateParamsStreaming

from runtime.errors import RequestError
from tests.fakes.engine import CONTEXT, model
from tests.unit.web.apis.anthropic.bodies import HI, WEATHER, Json, asked, assistant, text, tool_use, user
from web.apis.anthropic.parse import count_tokens, parse_messages
from web.apis.anthropic.prompts.schemas import HINTS, UNSUPPORTED, MessagesBody


def test_the_request() -> None:
    made = asked(
        max_tokens=7,
        temperature=0.5,
        top_k=40,
        top_p=0.9,
        stop_sequences=["###", "END"],
        stream=True,
        metadata={"user_id": "me"},
        service_tier="auto",
    )
    request = made.request
    assert bytes(request.prompts[0]) == b"<user>hi</user><assistant>"
    assert request.max_tokens == 7
    assert (request.sampling.temperature, request.sampling.top_k, request.sampling.top_p) == (0.5, 40, 0.9)
    assert request.stop.stops == ("###", "END")
    assert made.stream
    assert made.options.model == "any"
    assert made.options.id == request.id
    assert request.id.startswith("msg_")


def test_cedes_own_fields() -> None:
    request = asked(seed=5, min_p=0.1, ignore_eos=True, cache_prompt=False, speculate=False).request
    assert (request.sampling.seed, request.sampling.min_p) == (5, 0.1)
    assert (request.ignore_eos, request.cache_prompt, request.speculate) == (True, False, False)


def test_a_call_that_has_to_be_made_is_held_to_its_grammar() -> None:
    body = HI | {"messages": [user("?")], "tools": [WEATHER], "tool_choice": {"type": "any"}}
    made = parse_messages(json.dumps(body).encode(), model(context_length=10_000))
    assert made.request.grammar is not None
    assert asked().request.grammar is None


def test_a_limit_beyond_the_context_is_cut_and_the_answer_will_say_so() -> None:
    made = asked(max_tokens=32_000)
    assert made.request.max_tokens == made.options.room == CONTEXT - len(made.request.prompts[0])
    assert asked(max_tokens=1).options.room is None


def test_no_tokens_at_all_only_read_the_prompt() -> None:
    assert asked(max_tokens=0).request.max_tokens == 0


def test_an_answer_that_was_begun_is_gone_on_with() -> None:
    request = asked(messages=[user("hi"), assistant("We")]).request
    assert bytes(request.prompts[0]) == b"<user>hi</user><assistant>We"
    assert request.continues


@pytest.mark.parametrize(
    ("thinking", "shown"),
    [
        (None, True),
        ({"type": "adaptive"}, True),
        ({"type": "adaptive", "display": "summarized"}, True),
        ({"type": "adaptive", "display": "omitted"}, False),
    ],
)
def test_whether_a_thought_is_shown(thinking: object, shown: bool) -> None:
    assert asked(thinking=thinking).options.show_thinking is shown


def test_unknown_fields_are_told_once_and_hints_are_not(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "cede.web"):
        made = asked(
            metadata={}, service_tier="auto", cache_control={"type": "ephemeral"}, odd=1, context_management={}
        )
    assert caplog.messages == [f"{made.request.id}: ignored unknown fields: 'odd'"]


def test_every_parameter_of_anthropic_s_client_is_read_a_hint_or_refused() -> None:
    known = MessagesBody.model_fields.keys() | HINTS | UNSUPPORTED.keys()
    assert MessageCreateParamsStreaming.__annotations__.keys() | MessageCreateParamsBase.__annotations__.keys() <= known
    beta = BetaParams.__annotations__.keys() | BetaParamsBase.__annotations__.keys()
    assert beta <= known


WRONG: list[tuple[str, Any, str]] = [
    ("model", None, "model"),
    ("model", 5, "model"),
    ("max_tokens", None, "max_tokens"),
    ("max_tokens", -1, "max_tokens"),
    ("max_tokens", "5", "max_tokens"),
    ("messages", [], "messages"),
    ("messages", [{"role": "tool", "content": "x"}], "messages.0.role"),
    ("messages", [{"role": "user", "content": 5}], "messages.0.content"),
    ("messages", [{"role": "user", "content": [5]}], "messages.0.content.0"),
    ("messages", [{"role": "user", "content": [{"type": 5}]}], "messages.0.content.0"),
    ("messages", [{"role": "user", "content": [{"type": "text"}]}], "messages.0.content.0.text"),
    ("messages", [{"role": "user", "content": [text("x")] * 1025}], "messages.0.content"),
    (
        "messages",
        [assistant(tool_use("a") | {"input": "{}"})],
        "messages.0.content.0.input",
    ),
    (
        "messages",
        [
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "a", "name": "b", "input": {"a": [0] * 20_000}}],
            }
        ],
        "messages.0.content.0.input",
    ),
    ("system", 5, "system"),
    ("system", [{"text": "x"}], "system.0"),
    ("stop_sequences", "###", "stop_sequences"),
    ("stop_sequences", [""], "stop_sequences.0"),
    ("stop_sequences", ["x"] * 17, "stop_sequences"),
    ("temperature", -1, "temperature"),
    ("top_p", 2, "top_p"),
    ("stream", "yes", "stream"),
    ("thinking", {"type": "much"}, "thinking.type"),
    ("thinking", {"type": "enabled", "budget_tokens": 0}, "thinking.budget_tokens"),
    ("tool_choice", {"type": "some"}, "tool_choice.type"),
    ("tools", [{"name": "a", "input_schema": []}], "tools.0.input_schema"),
    ("output_format", {"type": "json_schema"}, "output_format.schema"),
    ("output_format", {"type": "text"}, "output_format.type"),
    ("output_config", {"format": {"schema": {}}}, "output_config.format.type"),
    ("output_config", {"effort": "huge"}, "output_config.effort"),
    ("mcp_servers", [{"type": "url"}], "mcp_servers"),
    ("container", "abc", "container"),
]


@pytest.mark.parametrize(("field", "value", "param"), WRONG)
def test_a_wrong_value_is_refused_by_name(field: str, value: object, param: str) -> None:
    with pytest.raises(RequestError) as refused:
        asked(**{field: value})
    assert refused.value.param == param


@pytest.mark.parametrize("field", ["model", "messages", "max_tokens"])
def test_what_has_to_be_there(field: str) -> None:
    body = {name: value for name, value in HI.items() if name != field}
    with pytest.raises(RequestError, match=f"^Missing required parameter: '{field}'"):
        parse_messages(json.dumps(body).encode(), model())


COUNTED: list[Json] = [
    {},
    {"system": "Be kind."},
    {"messages": [user("hi"), assistant("We")]},
    {"thinking": {"type": "adaptive"}},
]


@pytest.mark.parametrize("fields", COUNTED)
def test_tokens_are_counted_by_the_same_code(fields: Json) -> None:
    body = {name: value for name, value in (HI | fields).items() if name != "max_tokens"}
    assert count_tokens(json.dumps(body).encode(), model()) == {"input_tokens": len(asked(**fields).request.prompts[0])}


def test_a_prompt_that_does_not_fit_is_not_counted_to_its_end() -> None:
    body = {"model": "any", "messages": [user("x" * CONTEXT)]}
    with pytest.raises(RequestError) as refused:
        count_tokens(json.dumps(body).encode(), model())
    assert refused.value.code == "context_length_exceeded"
