"""The body of `/api/generate` as what it asks for."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from runtime.errors import RequestError
from tests.fakes.byte_tokenizer import BOS, ByteTokenizer, InfillTokenizer
from tests.fakes.engine import model
from tests.unit.web.apis.ollama.apps import generate, prompt_text
from web.apis.ollama.asked import LoadRequest
from web.apis.ollama.parse import parse_generate
from web.generation.grammars import ANY_OBJECT, schema_grammar

RENDERED = "<user>hi</user><assistant>"


def test_a_prompt_is_a_conversation() -> None:
    assert prompt_text(generate()) == RENDERED
    assert prompt_text(generate(system="be")) == "<system>be</system>" + RENDERED


def test_a_raw_prompt_is_taken_as_it_is() -> None:
    asked = generate(raw=True)
    assert asked.request.prompts == ((BOS, *b"hi"),)
    assert asked.request.continues
    assert asked.options.context is None


def test_a_base_model_goes_on_with_the_text() -> None:
    asked = generate(model(chat=None))
    assert asked.request.prompts == ((BOS, *b"hi"),)
    assert asked.request.continues
    with pytest.raises(RequestError, match="no chat template, which 'system' needs"):
        generate(model(chat=None), system="be")


def test_the_context_comes_before_the_prompt_and_back_with_the_answer() -> None:
    asked = generate(context=[BOS, 65])
    assert asked.request.prompts == ((BOS, 65, *RENDERED.encode()),)
    assert json.loads(f"[{asked.options.context}]") == list(asked.request.prompts[0])
    assert generate(model(chat=None), context=[BOS, 65]).request.prompts == ((BOS, 65, *b"hi"),)


def test_a_text_begins_only_once() -> None:
    """Templates write the token that begins a text; behind a context it is left out."""

    class Beginning(ByteTokenizer):
        def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
            return [BOS, *text.encode()]

    served = model(tokenizer=cast("Any", Beginning()))
    assert generate(served, context=[BOS, 65]).request.prompts == ((BOS, 65, *RENDERED.encode()),)
    assert generate(served).request.prompts == ((BOS, *RENDERED.encode()),)


def test_a_context_that_is_none_of_this_model_s() -> None:
    with pytest.raises(RequestError) as refused:
        generate(context=[99_999])
    assert refused.value.param == "context"


def test_a_gap_is_filled_by_a_model_that_can() -> None:
    served = model(tokenizer=InfillTokenizer())
    asked = generate(served, prompt="a", suffix="b")
    assert asked.request.prompts == ((BOS, 1, *b"a", 2, *b"b", 3),)
    assert asked.request.end_ids == (1, 2, 3)
    assert asked.request.continues
    with pytest.raises(RequestError, match="no tokens for filling") as refused:
        generate(prompt="a", suffix="b")
    assert refused.value.param == "suffix"


@pytest.mark.parametrize("fields", [{}, {"raw": True}, {"suffix": "x"}])
def test_a_format_holds_the_answer_however_the_prompt_was_made(fields: dict[str, Any]) -> None:
    served = model(tokenizer=InfillTokenizer())
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    closed = schema | {"additionalProperties": False}
    assert generate(served, format=schema, **fields).request.grammar == schema_grammar(closed, "format")
    assert generate(served, format="json", **fields).request.grammar == schema_grammar(ANY_OBJECT, "format")
    assert generate(model(chat=None), format={}).request.grammar == schema_grammar({}, "format")
    assert generate(served, format="", **fields).request.grammar is None


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"raw": True, "suffix": "x"}, "suffix"),
        ({"raw": True, "context": [1]}, "context"),
        ({"raw": True, "system": "x"}, "system"),
        ({"raw": True, "think": True}, "think"),
        ({"suffix": "x", "system": "x"}, "system"),
        ({"suffix": "x", "context": [1]}, "context"),
    ],
)
def test_what_excludes_each_other(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError, match="exclude each other") as refused:
        generate(**fields)
    assert refused.value.param == param


def test_without_a_prompt_the_model_is_only_asked_for() -> None:
    asked = parse_generate(b'{"model": "m", "stream": false}', model())
    assert isinstance(asked, LoadRequest)
    assert not asked.stream
    assert dict(asked.answer())["response"] == ""
