"""The body of a chat as what it asks for."""

from __future__ import annotations

import json

import pytest

from runtime.errors import RequestError
from tests.fakes.engine import model
from tests.unit.web.apis.ollama.apps import chat, prompt_text
from web.apis.ollama.asked import LoadRequest
from web.apis.ollama.parse import parse_chat
from web.generation.grammars import ANY_OBJECT, schema_grammar


def test_the_template_makes_the_prompt() -> None:
    asked = chat()
    assert prompt_text(asked) == "<user>hi</user><assistant>"
    assert not asked.request.continues
    assert asked.stream
    assert not chat(stream=False).stream


def test_an_answer_that_is_begun_is_gone_on_with() -> None:
    asked = chat(messages=[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Sure"}])
    assert prompt_text(asked) == "<user>hi</user><assistant>Sure"
    assert asked.request.continues


def test_the_name_that_the_client_used_is_answered() -> None:
    assert chat(model="other:latest").options.model == "other:latest"
    assert chat(model=None).options.model == "bytes"


def test_a_format_holds_the_answer() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    closed = schema | {"additionalProperties": False}
    assert chat(format=schema).request.grammar == schema_grammar(closed, "format")
    assert chat(model(open_objects=True), format=schema).request.grammar == schema_grammar(schema, "format")
    assert chat(format="json").request.grammar == schema_grammar(ANY_OBJECT, "format")
    assert chat().request.grammar is None


def test_log_probabilities() -> None:
    assert chat(logprobs=True, top_logprobs=3).request.sampling.logprobs == 3
    assert chat(logprobs=True).request.sampling.logprobs == 0
    assert chat().request.sampling.logprobs is None
    with pytest.raises(RequestError, match="needs 'logprobs'"):
        chat(top_logprobs=3)


@pytest.mark.parametrize("messages", [None, []])
def test_without_messages_the_model_is_only_asked_for(messages: object) -> None:
    asked = parse_chat(json.dumps({"model": "m", "messages": messages}).encode(), model())
    assert isinstance(asked, LoadRequest)
    answer = dict(asked.answer())
    assert (answer["model"], answer["done"], answer["done_reason"]) == ("m", True, "load")
    assert answer["message"] == {"role": "assistant", "content": ""}


@pytest.mark.parametrize("keep_alive", [0, "0", "0s"])
def test_a_model_that_is_to_be_unloaded_is_said_to_be_loaded(keep_alive: object) -> None:
    asked = parse_chat(json.dumps({"keep_alive": keep_alive}).encode(), model())
    assert isinstance(asked, LoadRequest)
    assert asked.answer()["done_reason"] == "load", "it says what is true: nothing is unloaded"
    chat(keep_alive=keep_alive)  # beside a prompt it changes nothing in the answer


def test_a_model_without_a_template_says_what_to_use_instead() -> None:
    with pytest.raises(RequestError, match="/api/generate"):
        chat(model(chat=None))
