"""The bodies of embedding requests."""

from __future__ import annotations

import json
import struct
from array import array
from base64 import b64decode
from typing import Any

import pytest

from runtime.errors import RequestError
from tests.fakes.engine import BOS, CONTEXT, VOCABULARY, model
from web.apis.openai.embeddings import parse_embeddings
from web.bodies.json_encoding import iter_json
from web.generation.embeddings import EmbeddingRequest
from web.process.limits import MAX_INPUTS


def parse(**body: Any) -> EmbeddingRequest:  # noqa: ANN401
    return parse_embeddings(json.dumps(body).encode(), model())


def answer(asked: EmbeddingRequest, *vectors: array[float]) -> Any:  # noqa: ANN401
    return json.loads(b"".join(iter_json(asked.answer(list(vectors)))))


def test_an_input_has_four_forms() -> None:
    hi = (BOS, *b"hi")
    assert parse(input="hi").prompts == (hi,)
    assert parse(input=["hi", "hi"]).prompts == (hi, hi)
    assert parse(input=[1, 2]).prompts == ((1, 2),)
    assert parse(input=[[1, 2], [3]]).prompts == ((1, 2), (3,))


def test_numbers_are_json_or_float32_in_base64() -> None:
    vector = array("f", [0.5, -0.25])
    shown = answer(parse(input=[[1, 2, 3]]), vector)
    assert shown["data"] == [{"object": "embedding", "index": 0, "embedding": [0.5, -0.25]}]
    assert shown["usage"] == {"prompt_tokens": 3, "total_tokens": 3}
    assert (shown["object"], shown["model"], shown["cede"]) == ("list", "bytes", {"pooling": "mean"})
    encoded = answer(parse(input="a", model="x", encoding_format="base64"), vector)
    assert encoded["model"] == "x"
    assert struct.unpack("<2f", b64decode(encoded["data"][0]["embedding"])) == (0.5, -0.25)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": ""}, None),
        ({"input": [[]]}, "input"),
        ({"input": [1, "a"]}, "input.1"),
        ({"input": [VOCABULARY]}, "input"),
        ({"input": [1] * CONTEXT}, "input"),
        ({"input": [[1]] * (MAX_INPUTS + 1)}, "input"),
        ({"input": "a", "dimensions": 2}, "dimensions"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format"),
        ({"input": "a", "truncate_prompt_tokens": 3}, "truncate_prompt_tokens"),
    ],
)
def test_what_is_wrong_is_refused_by_name(body: dict[str, Any], param: str | None) -> None:
    if param is None:  # a BOS is a text for the model
        assert parse(**body).prompts == ((BOS,),)
        return
    with pytest.raises(RequestError) as refused:
        parse(**body)
    assert refused.value.param == param


def test_the_dimensions_that_there_are_may_be_named() -> None:
    assert parse(input="a", dimensions=4).prompts


def test_vllms_normalize_leaves_vectors_as_they_are() -> None:
    assert parse(input="a").normalise
    assert not parse(input="a", normalize=False).normalise
