"""Priorities, and the service tiers that are names for some of them, in each API that generates."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from runtime.errors import RequestError
from tests.fakes.engine import model
from web.apis.anthropic.parse import parse_messages
from web.apis.ollama.parse import parse_chat as parse_ollama_chat
from web.apis.ollama.parse import parse_generate
from web.apis.openai.chat import parse_chat
from web.apis.openai.completions import parse_completion
from web.generation.asked import priority_of, tier_of

HI = [{"role": "user", "content": "hi"}]
PARSERS: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (parse_chat, {"messages": HI}),
    (parse_completion, {"prompt": "a"}),
    (parse_messages, {"model": "any", "messages": HI, "max_tokens": 5}),
    (parse_ollama_chat, {"messages": HI}),
    (parse_generate, {"prompt": "a"}),
]


@pytest.mark.parametrize(
    ("priority", "tier", "number"),
    [
        (None, None, 0),
        (None, "auto", 0),
        (None, "flex", 10),
        (None, "priority", -10),
        (3, "flex", 3),
        (0, "priority", 0),
    ],
)
def test_a_number_goes_before_the_name_of_one(priority: int | None, tier: Any, number: int) -> None:  # noqa: ANN401
    assert priority_of(priority, tier) == number


def test_the_tier_that_was_used() -> None:
    assert [tier_of(number) for number in (-1000, -10, -9, 0, 9, 10)] == [
        *("priority", "priority", "default", "default", "default", "flex"),
    ]


@pytest.mark.parametrize(("parse", "body"), PARSERS)
def test_each_api_takes_a_priority(parse: Callable[..., Any], body: dict[str, Any]) -> None:
    assert parse(json.dumps(body | {"priority": -7}).encode(), model(), 9).request.priority == -7
    assert parse(json.dumps(body).encode(), model(), 9).request.priority == 0


@pytest.mark.parametrize(("parse", "body"), PARSERS)
@pytest.mark.parametrize("priority", [1001, -1001, "1", 1.5, True])
def test_what_is_no_priority_is_refused_by_its_name(
    parse: Callable[..., Any],
    body: dict[str, Any],
    priority: Any,  # noqa: ANN401
) -> None:
    with pytest.raises(RequestError) as refused:
        parse(json.dumps(body | {"priority": priority}).encode(), model(), 9)
    assert (refused.value.status, refused.value.param) == (400, "priority")


@pytest.mark.parametrize("tier", ["urgent", 1, ["flex"]])
def test_a_tier_that_there_is_not_is_refused_by_its_name(tier: object) -> None:
    for parse, body in PARSERS[:2]:
        with pytest.raises(RequestError) as refused:
            parse(json.dumps(body | {"service_tier": tier}).encode(), model(), 9)
        assert (refused.value.status, refused.value.param) == (400, "service_tier")
