"""The body of `/infill` as what it asks for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runtime.errors import RequestError
from tests.fakes.byte_tokenizer import BOS, InfillTokenizer
from tests.fakes.engine import CONTEXT, model
from tests.unit.web.bounds import unbounded
from web.apis.infill.answers import InfillOptions
from web.apis.infill.parse import parse_infill
from web.apis.infill.schemas import InfillBody
from web.generation.asked import Asked

SERVED = model(tokenizer=InfillTokenizer(), eos_token_ids=(9,))


def asked(**fields: Any) -> Asked[InfillOptions]:  # noqa: ANN401
    body = {"input_prefix": "a", "input_suffix": "b"} | fields
    return parse_infill(json.dumps(body).encode(), SERVED)


def test_the_gap_and_what_its_filling_begins_with() -> None:
    assert asked().request.prompts == ((BOS, 1, *b"a", 2, *b"b", 3),)
    assert asked(prompt="c").request.prompts == ((BOS, 1, *b"a", 2, *b"b", 3, *b"c"),)
    assert asked(input_prefix="", input_suffix="").request.prompts == ((BOS, 1, 2, 3),)
    assert asked().request.continues


def test_other_files_leave_room_for_the_answer() -> None:
    files = [{"filename": "x", "text": "1" * 20}, {"text": "2" * 20}]
    both = asked(input_extra=files, n_predict=1).request.prompts[0]
    assert bytes(both[1:25]) == b"x\n" + b"1" * 20 + b"\nf"
    assert bytes(asked(input_extra=files, n_predict=9).request.prompts[0][1:9]) == b"filename"
    assert asked(input_extra=files, n_predict=CONTEXT - 8).request.prompts == asked().request.prompts


def test_tokens_that_end_it() -> None:
    assert asked().request.end_ids == (1, 2, 3)
    assert asked(stop_token_ids=[65]).request.end_ids == (65, 1, 2, 3)
    assert asked(ignore_eos=True).request.end_ids == ()


def test_how_many_tokens() -> None:
    assert asked(n_predict=7).request.max_tokens == 7
    assert asked(n_predict=0).request.max_tokens == 0
    assert asked(n_predict=-1).request.max_tokens is None
    assert asked().request.max_tokens is None


def test_the_list_of_samplers_turns_the_others_off() -> None:
    fields = {"temperature": 0.5, "top_k": 5, "top_p": 0.5, "min_p": 0.1, "repeat_penalty": 1.5}
    all_of_them = asked(**fields).request.sampling
    assert (all_of_them.temperature, all_of_them.top_k, all_of_them.min_p) == (0.5, 5, 0.1)
    some = asked(**fields, samplers=["top_k", "temperature"]).request.sampling
    assert (some.temperature, some.top_k, some.top_p, some.min_p, some.repetition_penalty) == (0.5, 5, 1.0, 0.0, 1.0)
    none = asked(**fields, samplers=[]).request.sampling
    assert (none.temperature, none.top_k, none.top_p) == (1.0, 0, 1.0)
    assert asked(**fields, samplers=["top_k", "top_p", "infill"]).request.sampling.temperature == 0


def test_what_editors_send_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "cede.web"):
        made = asked(id_slot=-1, cache_prompt=True, t_max_prompt_ms=500, response_fields=["content"])
    assert caplog.messages == []
    assert made.options.fields == ("content",)
    with caplog.at_level("INFO", "cede.web"):
        made = asked(n_indent=4, t_max_predict_ms=1000)
    assert caplog.messages == [f"{made.request.id}: ignored unknown fields: 'n_indent, t_max_predict_ms'"]


def test_a_model_that_cannot_fill_gaps_is_named() -> None:
    with pytest.raises(RequestError, match="no tokens for filling in the middle") as refused:
        parse_infill(b'{"input_prefix": "a", "input_suffix": "b"}', model())
    assert (refused.value.status, refused.value.param, refused.value.code) == (
        400,
        "input_suffix",
        "unsupported_parameter",
    )


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input_prefix": None}, "input_prefix"),
        ({"input_suffix": 5}, "input_suffix"),
        ({"prompt": ["x"]}, "prompt"),
        ({"input_extra": {}}, "input_extra"),
        ({"input_extra": [{"filename": "x"}]}, "input_extra.0.text"),
        ({"input_extra": [{"text": "x", "filename": 1}]}, "input_extra.0.filename"),
        ({"n_probs": 21}, "n_probs"),
        ({"n": 2}, "n"),
        ({"samplers": "top_k"}, "samplers"),
        ({"post_sampling_probs": True}, "post_sampling_probs"),
        ({"lora": [{"id": 0}]}, "lora"),
        ({"mirostat": 2}, "mirostat"),
        ({"truncate_prompt_tokens": 5}, "truncate_prompt_tokens"),
        ({"input_prefix": "a" * CONTEXT}, "input_suffix"),
    ],
)
def test_what_is_wrong_is_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as refused:
        asked(**fields)
    assert (refused.value.status, refused.value.param) == (400, param)


def test_no_field_is_without_a_bound() -> None:
    assert unbounded(InfillBody.model_json_schema()) == []
