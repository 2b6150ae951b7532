"""A completion's prompts, in any of their forms."""

from __future__ import annotations

import json

import pytest

from runtime.errors import RequestError
from tests.fakes.byte_tokenizer import InfillTokenizer
from tests.fakes.engine import BOS, completion, model
from web.apis.openai.completions import parse_completion


def tokens(text: str) -> tuple[int, ...]:
    return tuple(text.encode())


def test_a_prompt_has_four_forms() -> None:
    hi = (BOS, *tokens("hi"))
    assert completion(prompt="hi").request.prompts == (hi,)
    assert completion(prompt=["hi", "yo"]).request.prompts == (hi, (BOS, *tokens("yo")))
    assert completion(prompt=[1, 2]).request.prompts == ((1, 2),)
    assert completion(prompt=[[1, 2], [3]]).request.prompts == ((1, 2), (3,))


def test_choices_of_one_prompt_are_neighbours() -> None:
    parsed = completion(prompt=[[1], [2]], n=2, echo=True)
    assert parsed.request.prompts == ((1,), (1,), (2,), (2,))
    assert parsed.options.echo == ("\1", "\1", "\2", "\2")


def test_a_suffix_is_for_models_that_fill_gaps() -> None:
    with pytest.raises(RequestError, match="no tokens for filling in the middle") as refused:
        completion(suffix="end")
    assert refused.value.param == "suffix"
    served = model(tokenizer=InfillTokenizer())
    body = {"prompt": "a", "suffix": "b"}
    assert parse_completion(json.dumps(body).encode(), served).request.prompts == ((BOS, 1, *b"a", 2, *b"b", 3),)
    assert parse_completion(json.dumps(body).encode(), served).request.end_ids == (1, 2, 3)
    assert parse_completion(json.dumps(body | {"ignore_eos": True}).encode(), served).request.end_ids == ()
    with pytest.raises(RequestError, match="must be text"):
        parse_completion(json.dumps(body | {"prompt": [1]}).encode(), served)
