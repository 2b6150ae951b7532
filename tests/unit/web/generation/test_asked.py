"""Bodies of every API, of which fields count that the API's own schema has validated."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from runtime.checkpoint.sampling_defaults import SamplingDefaults
from runtime.loading.served import ServedModel
from tests.fakes.byte_tokenizer import InfillTokenizer
from tests.fakes.engine import model
from tests.rows import every_row
from tests.unit.web.apis.anthropic.bodies import asked as message
from tests.unit.web.apis.ollama.apps import chat, generate
from tests.unit.web.apis.responses.asking import ask as response
from web.apis.infill.parse import parse_fim, parse_infill
from web.apis.ollama.parse import parse_chat as parse_ollama_chat
from web.apis.ollama.parse import parse_generate
from web.apis.openai.chat import parse_chat
from web.apis.openai.completions import parse_completion
from web.apis.responses.conversion import History, prepare, read_body
from web.generation.asked import Asked

HI = [{"role": "user", "content": "hi"}]

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


def parse_response(raw: bytes, served: ServedModel) -> Asked[Any]:
    return prepare(read_body(raw, served), History(), served)


@every_row(
    "parse, body, own, limits",
    [
        (parse_chat, {"messages": HI}, {"max_completion_tokens": 9}, (7, 9)),
        (parse_chat, {"messages": HI}, {"max_tokens": -1}, (7, None)),
        (parse_completion, {"prompt": "hi"}, {"max_tokens": 9}, (16, 9)),
        (parse_response, {"input": "hi"}, {"max_output_tokens": 9}, (7, 9)),
        (parse_fim, {"prompt": "hi", "model": "any"}, {"max_tokens": 9}, (7, 9)),
        (parse_infill, {"input_prefix": "a", "input_suffix": "b"}, {"n_predict": 9}, (7, 9)),
        (parse_ollama_chat, {"messages": HI, "model": "any"}, {"options": {"num_predict": -1}}, (7, None)),
        (parse_generate, {"prompt": "hi", "model": "any"}, {"options": {"num_predict": 9}}, (7, 9)),
    ],
)
def test_the_servers_limit_holds_where_a_body_of_any_api_gives_none(
    parse: Callable[..., Any],
    body: dict[str, Any],
    own: dict[str, Any],
    limits: tuple[int | None, ...],
) -> None:
    served = model(context_length=99, sampling=SamplingDefaults(max_tokens=7), tokenizer=InfillTokenizer())
    asked = [parse(json.dumps(body | more).encode(), served) for more in ({}, own)]
    assert tuple(one.request.max_tokens for one in asked) == limits
