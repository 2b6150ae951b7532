"""A request of the front door's as one of the engine's."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from actors.control import Control
from runtime.errors import RequestError
from runtime.loading.served import ServedModel
from tests.fakes.served_model import FakeModel
from web.cluster.translation.requests import Asked, completion_body, parse_asked

MODEL = cast("ServedModel", FakeModel(vocab_size=1000))


def asked(**fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return what Dynamo 1.6.1 sends of a chat, as it was seen."""
    stops = dict.fromkeys(
        ["stop", "stop_token_ids", "stop_token_ids_visible", "min_tokens", "ignore_eos", "max_thinking_tokens"]
    )
    sampling = dict.fromkeys(
        [
            *["n", "best_of", "presence_penalty", "frequency_penalty", "repetition_penalty", "temperature", "top_p"],
            *["top_k", "min_p", "use_beam_search", "length_penalty", "seed", "include_stop_str_in_output"],
            "guided_decoding",
        ]
    )
    output = dict.fromkeys(["logprobs", "prompt_logprobs", "skip_special_tokens", "formatted_prompt"])
    request: dict[str, Any] = {
        "model": "m",
        "token_ids": [5, 6, 7],
        "stop_conditions": stops | {"max_tokens": 8, "stop_token_ids_hidden": [0]},
        "sampling_options": sampling,
        "output_options": output,
        "eos_token_ids": [0],
        "mdc_sum": "ab",
        "annotations": [],
        "routing": {"dp_rank": 0},
        "router_config_override": None,
    }
    for name, value in fields.items():
        part = next((part for part in request.values() if isinstance(part, dict) and name in part), request)
        part[name] = value
    return request


def read(**fields: Any) -> Asked:  # noqa: ANN401
    return Asked.read("r", asked(**fields), MODEL.vocab_size)


def parsed(**fields: Any) -> Any:  # noqa: ANN401
    request = read(**fields)
    return parse_asked(completion_body(request), MODEL, 16, asked=request)


def test_a_request_keeps_its_id_its_tokens_and_its_limit() -> None:
    request = parsed()
    assert (request.id, request.prompts, request.max_tokens) == ("r", ((5, 6, 7),), 8)


def test_the_workers_limit_holds_where_the_client_gives_none() -> None:
    bodies = [json.loads(completion_body(read(max_tokens=given), limit)) for given, limit in ((None, 7), (9, 7))]
    assert [body["max_tokens"] for body in bodies] == [7, 9]


def test_what_is_not_said_is_the_servers_default() -> None:
    assert parsed().sampling == parsed(temperature=MODEL.sampling.values()["temperature"]).sampling


def test_sampling_parameters_are_taken_over() -> None:
    sampling = parsed(
        temperature=0.5, top_k=7, top_p=0.9, min_p=0.1, repetition_penalty=1.1, seed=3, min_tokens=2
    ).sampling
    assert (sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p) == (0.5, 7, 0.9, 0.1)
    assert (sampling.repetition_penalty, sampling.seed, sampling.min_tokens) == (1.1, 3, 2)


def test_choices_have_the_prompt_each() -> None:
    assert parsed(n=3, temperature=1.0).prompts == ((5, 6, 7),) * 3


def test_without_a_limit_there_is_none() -> None:
    assert parsed(max_tokens=None).max_tokens in (None, MODEL.context_length - 3)


def test_nothing_is_left_of_the_limit_of_a_request_that_had_all_its_tokens() -> None:
    assert parsed(max_tokens=0).max_tokens == 0


def test_stop_strings_and_stop_tokens_are_taken_over_but_not_the_models_own_ends() -> None:
    request = parsed(stop=["a", "b"], stop_token_ids=[3], stop_token_ids_visible=[4], stop_token_ids_hidden=[0, 3])
    assert (request.stop.stops, request.end_ids) == (("a", "b"), (3, 4))
    assert parsed(ignore_eos=True).end_ids == ()


def test_guided_decoding_is_a_grammar() -> None:
    request = parsed(guided_decoding={"regex": "[ab]+", "backend": None})
    assert request.grammar is not None
    assert request.grammar.source == "[ab]+"


def test_a_session_of_the_front_door_is_a_session_here() -> None:
    assert parsed(agent_context={"session_id": "s"}).session == "s"


def test_what_an_annotation_says_is_the_requests_control() -> None:
    assert parsed(annotations=['cede:{"group": "g", "supersede": "e"}']).control == Control(group="g", supersede="e")


def test_log_probabilities_are_asked_for() -> None:
    assert parsed(logprobs=2).sampling.logprobs == 2


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"presence_penalty": 0.5, "logprobs": 1}, "logprobs"),
        ({"frequency_penalty": 0.5, "token_ids": [5, 1006, 1007]}, "prompt"),
        ({"token_ids": [5, 1006]}, "prompt"),
        ({"multi_modal_data": {"image_url": [{}]}}, "multi_modal_data"),
        ({"prompt_embeds": "AA"}, "prompt_embeds"),
        ({"max_thinking_tokens": 5}, "max_thinking_tokens"),
        ({"temperature": 99}, "temperature"),
        ({"use_beam_search": True}, "use_beam_search"),
        ({"guided_decoding": {"structural_tag": {}}}, "structured_outputs.structural_tag"),
        ({"token_ids": [10**9]}, "prompt"),
        ({"token_ids": []}, "prompt"),
        ({"n": 1000}, "n"),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as caught:
        parsed(**fields)
    assert caught.value.param is not None
    assert caught.value.param.startswith(param)


def test_penalties_of_nothing_are_none() -> None:
    assert not {"presence_penalty"} - json.loads(completion_body(read(presence_penalty=0))).keys()
    assert not read(presence_penalty=0).is_marked


@pytest.mark.parametrize("name", ["presence_penalty", "frequency_penalty"])
def test_with_penalties_the_first_token_of_the_output_is_known_by_its_number(name: str) -> None:
    first = parsed(**{name: 0.5})
    assert (first.prompts, first.emitted) == (((5, 6, 7),), 0)
    later = parsed(**{name: 0.5, "token_ids": [5, 6, 1007, 8]})
    assert (later.prompts, later.emitted) == (((5, 6, 7, 8),), 2)


def test_the_least_of_tokens_is_counted_from_the_beginning_of_the_output() -> None:
    later = parsed(presence_penalty=0.5, token_ids=[5, 6, 1007, 8], min_tokens=3)
    assert later.sampling.min_tokens == 5
    assert parsed(presence_penalty=0.5, token_ids=[5, 6, 1007, 8], min_tokens=0).sampling.min_tokens == 0


def test_several_choices_have_no_mark() -> None:
    assert not read(presence_penalty=0.5, n=2).is_marked
    assert read(presence_penalty=0.5, n=1).is_marked
