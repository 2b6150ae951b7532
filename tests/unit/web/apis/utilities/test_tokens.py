"""Texts and chats as tokens, and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from runtime.errors import RequestError
from runtime.text.tokenizer import Tokenizer
from tests.fakes.engine import BOS, CONTEXT, VOCABULARY, model
from tests.models.small_tokenizers import byte_level
from web.apis.utilities.tokens import LEAST_BOUND, apply_template, detokenize, tokenize
from web.bodies.json_encoding import JsonObject

MESSAGES = [{"role": "user", "content": "hi"}]
RENDERED = b"<user>hi</user><assistant>"


def answer(function: Callable[..., Any], /, **body: Any) -> Any:  # noqa: ANN401
    return function(json.dumps(body).encode(), model(), 1)


def test_llama_server_s_content_is_only_tokens() -> None:
    assert answer(tokenize, content="hé") == {"tokens": list("hé".encode())}
    assert answer(tokenize, content="h", add_special=True) == {"tokens": [BOS, ord("h")]}
    assert answer(tokenize, content="") == {"tokens": []}


def test_pieces_are_text_where_they_can_be() -> None:
    pieces = answer(tokenize, content="hé", with_pieces=True)["tokens"]
    assert pieces == [{"id": 104, "piece": "h"}, {"id": 0xC3, "piece": [0xC3]}, {"id": 0xA9, "piece": [0xA9]}]


def test_vllm_s_prompt_has_a_count_and_what_begins_a_text() -> None:
    expected = {"count": 2, "max_model_len": CONTEXT, "tokens": [BOS, ord("h")], "token_strs": None}
    assert answer(tokenize, prompt="h") == expected
    assert answer(tokenize, prompt="h", add_special_tokens=False)["tokens"] == [ord("h")]
    assert answer(tokenize, prompt="h", return_token_strs=True)["token_strs"] == ["<s>", "h"]


def test_a_chat_is_what_the_template_makes_of_it() -> None:
    assert bytes(answer(tokenize, messages=MESSAGES)["tokens"]) == RENDERED
    assert answer(tokenize, messages=MESSAGES, add_special_tokens=True)["tokens"] == [BOS, *RENDERED]
    ended = answer(tokenize, messages=MESSAGES, add_generation_prompt=False)
    assert bytes(ended["tokens"]) == b"<user>hi</user>"
    assert answer(apply_template, messages=MESSAGES) == {"prompt": RENDERED.decode()}
    shouted = answer(apply_template, messages=MESSAGES, chat_template_kwargs={"shout": "!"})
    assert shouted == {"prompt": "<user>hi</user>!<assistant>"}


def test_a_text_may_be_longer_than_the_context() -> None:
    assert answer(tokenize, prompt="x" * 1000)["count"] == 1001


def test_tokens_are_turned_back_with_the_names_of_special_ones() -> None:
    assert answer(detokenize, tokens=list("hé".encode())) == {"content": "hé", "prompt": "hé"}
    assert answer(detokenize, tokens=[]) == {"content": "", "prompt": ""}
    tokenizer = Tokenizer(byte_level())
    served = model(tokenizer=tokenizer, vocab_size=tokenizer.vocab_size)
    ids = tokenizer.encode("The dog", add_special_tokens=True)
    assert detokenize(json.dumps({"tokens": ids}).encode(), served, 1)["content"] == "<|bos|>The dog"


WRONG: list[tuple[Callable[..., JsonObject], dict[str, Any], str | None]] = [
    (tokenize, {}, "content"),
    (tokenize, {"content": "a", "prompt": "b"}, "prompt"),
    (tokenize, {"content": 5}, "content"),
    (tokenize, {"content": "a", "parse_special": False}, "parse_special"),
    (tokenize, {"content": "x" * (LEAST_BOUND + 1)}, "content"),
    (tokenize, {"messages": []}, "messages"),
    (tokenize, {"messages": [{"role": "user", "content": "x" * CONTEXT}]}, "messages"),
    (detokenize, {}, "tokens"),
    (detokenize, {"tokens": "a"}, "tokens"),
    (detokenize, {"tokens": [-1]}, "tokens.0"),
    (detokenize, {"tokens": [VOCABULARY]}, "tokens"),
    (detokenize, {"tokens": [1] * (LEAST_BOUND + 1)}, "tokens"),
    (apply_template, {}, "messages"),
    (apply_template, {"messages": MESSAGES, "chat_template_kwargs": {"messages": []}}, "chat_template_kwargs"),
]


@pytest.mark.parametrize(("function", "body", "param"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_named(
    function: Callable[..., dict[str, Any]], body: dict[str, Any], param: str | None
) -> None:
    with pytest.raises(RequestError) as refused:
        answer(function, **body)
    assert (refused.value.status, refused.value.param) == (400, param)


def test_a_model_without_a_template_counts_no_chats() -> None:
    with pytest.raises(RequestError, match="no chat template"):
        apply_template(json.dumps({"messages": MESSAGES}).encode(), model(chat=None), 1)
