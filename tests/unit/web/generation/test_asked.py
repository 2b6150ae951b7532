"""Bodies of every API, of which fields count that the API's own schema has validated."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.rows import every_row
from tests.unit.web.apis.anthropic.bodies import asked as message
from tests.unit.web.apis.ollama.apps import chat, generate
from tests.unit.web.apis.responses.asking import ask as response

if TYPE_CHECKING:
    from collections.abc import Callable

    from web.generation.asked import Asked

OTHERS: dict[str, object] = {
    "stop": 5,
    "stop_token_ids": [10**9],
    "bad_words": [""],
    "allowed_token_ids": ["x"],
    "logit_bias": {"x": 1},
    "presence_penalty": "x",
    "min_tokens": "x",
}
"""Fields of OpenAI's older endpoints alone, of values that they refuse."""
IN_OPTIONS = OTHERS | {"stop": "END", "presence_penalty": 0.0, "cache_prompt": "x", "service_tier": "x"}


@every_row(
    "ask, fields",
    [
        (message, OTHERS | {"prompt_cache_key": 5, "service_tier": "standard_only"}),
        (response, {"allowed_token_ids": ["x"]}),
        (chat, OTHERS | {"ignore_eos": 1, "cache_prompt": False, "temperature": "x", "service_tier": "x"}),
        (generate, OTHERS | {"ignore_eos": 1, "speculate": False, "seed": "x", "prompt_cache_key": 5}),
    ],
)
def test_a_field_that_an_api_does_not_have_is_not_read(ask: Callable[..., Asked[Any]], fields: dict[str, Any]) -> None:
    plain = ask().request
    assert replace(ask(**fields).request, id=plain.id, stop=plain.stop) == plain
    assert plain.stop.stops == ask(**fields).request.stop.stops == ()


@every_row("ask", [chat, generate])
def test_an_option_that_ollama_does_not_have_is_not_read(ask: Callable[..., Asked[Any]]) -> None:
    plain = ask(options={"stop": "END", "presence_penalty": 0.0}).request
    read = ask(options=IN_OPTIONS).request
    assert replace(read, id=plain.id, stop=plain.stop) == plain
    assert read.stop.stops == ("END",)
