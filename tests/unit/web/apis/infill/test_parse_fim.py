"""Mistral's body as what it asks for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runtime.errors import RequestError
from tests.fakes.byte_tokenizer import BOS, InfillTokenizer
from tests.fakes.engine import model
from tests.unit.web.bounds import unbounded
from web.apis.infill.parse import parse_fim
from web.apis.infill.schemas import FimBody
from web.generation.asked import Asked
from web.generation.openai_format.answers.options import ResponseOptions


def asked(tokenizer: InfillTokenizer | None = None, **fields: Any) -> Asked[ResponseOptions]:  # noqa: ANN401
    served = model(tokenizer=tokenizer or InfillTokenizer())
    return parse_fim(json.dumps({"model": "codestral", "prompt": "a"} | fields).encode(), served)


def test_a_gap() -> None:
    made = asked(suffix="b")
    assert made.request.prompts == ((BOS, 1, *b"a", 2, *b"b", 3),)
    assert made.request.end_ids == (1, 2, 3)
    assert made.request.continues
    assert made.options.running_usage


def test_codestral_s_order_is_its_own() -> None:
    made = asked(InfillTokenizer({"[PREFIX]": 1, "[SUFFIX]": 2}), suffix="b")
    assert made.request.prompts == ((BOS, 2, *b"b", 1, *b"a"),)


@pytest.mark.parametrize("suffix", [None, ""])
def test_without_a_suffix_the_text_goes_on(suffix: str | None) -> None:
    made = asked(suffix=suffix)
    assert made.request.prompts == ((BOS, *b"a"),)
    assert made.request.end_ids == ()
    assert parse_fim(b'{"prompt": "a"}', model()).request.prompts == ((BOS, *b"a"),)


def test_its_fields() -> None:
    made = asked(random_seed=7, min_tokens=2, max_tokens=5, stop=["x"], temperature=0.25)
    assert (made.request.sampling.seed, made.request.sampling.min_tokens, made.request.max_tokens) == (7, 2, 5)
    assert made.request.sampling.temperature == 0.25
    with pytest.raises(RequestError, match="give one"):
        asked(seed=1, random_seed=2)


def test_a_model_that_cannot_fill_gaps_is_named() -> None:
    with pytest.raises(RequestError, match="no tokens for filling in the middle") as refused:
        parse_fim(b'{"prompt": "a", "suffix": "b"}', model())
    assert (refused.value.status, refused.value.param) == (400, "suffix")


def test_no_field_is_without_a_bound() -> None:
    assert unbounded(FimBody.model_json_schema()) == []
