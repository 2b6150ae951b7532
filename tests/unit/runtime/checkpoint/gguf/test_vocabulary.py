"""The vocabulary of a GGUF file: special tokens, those that end an answer, templates, and what is malformed."""

from __future__ import annotations

from typing import Any

import pytest
from gguf.constants import TokenType

from runtime.checkpoint.gguf.vocabulary import Vocabulary, chat_template, end_token_ids, token_names
from runtime.errors import CheckpointError
from tests.unit.runtime.checkpoint.gguf.vocabularies import FILE, metadata_of

NORMAL, CONTROL, USER_DEFINED = map(int, (TokenType.NORMAL, TokenType.CONTROL, TokenType.USER_DEFINED))
KEYS: dict[str, Any] = {
    "model": "gpt2",
    "tokens": ["a", "b", "<begin>", "<end>"],
    "token_type": [NORMAL, NORMAL, CONTROL, CONTROL],
    "bos_token_id": 2,
    "eos_token_id": 3,
}


def of_tokens(*tokens: str, kind: int = CONTROL, **others: object) -> dict[str, Any]:
    return {"model": "gpt2", "tokens": ["a", *tokens], "token_type": [NORMAL, *(kind for _ in tokens)]} | others


def test_special_tokens_have_the_names_of_transformers() -> None:
    others = {"unknown_token_id": 0, "padding_token_id": 1, "seperator_token_id": 2, "mask_token_id": 3}
    assert token_names(metadata_of(KEYS | others)) == {
        "bos_token": "<begin>",
        "eos_token": "<end>",
        "unk_token": "a",
        "pad_token": "b",
        "sep_token": "<begin>",
        "mask_token": "<end>",
    }


@pytest.mark.parametrize("none", [None, -1, 0xFFFFFFFF])
def test_a_file_may_name_no_such_token(none: int | None) -> None:
    assert token_names(metadata_of(KEYS | {"bos_token_id": none})) == {"eos_token": "<end>"}


@pytest.mark.parametrize("key", ["bos_token_id", "eos_token_id", "padding_token_id"])
def test_a_special_token_is_one_of_the_tokens(key: str) -> None:
    with pytest.raises(CheckpointError, match=rf"{FILE}: tokenizer\.ggml\.{key} is 4, and there are 4 tokens"):
        token_names(metadata_of(KEYS | {key: 4}))


# --- ends ---------------------------------------------------------------------------------------------------------


def test_the_end_of_a_text_a_turn_and_a_message_end_an_answer() -> None:
    assert end_token_ids(metadata_of(KEYS | {"eot_token_id": 1, "eom_token_id": 0})) == (3, 1, 0)


@pytest.mark.parametrize("token", ["<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "<｜end▁of▁sentence｜>"])  # noqa: RUF001
def test_known_control_tokens_end_an_answer(token: str) -> None:
    assert end_token_ids(metadata_of(of_tokens("<|im_start|>", token))) == (2,)


@pytest.mark.parametrize("token", ["</s>", "<|im_end|>"])
def test_text_that_looks_alike_does_not(token: str) -> None:
    """`</s>` is HTML's strikethrough in Gemma's vocabulary."""
    assert end_token_ids(metadata_of(of_tokens(token, kind=USER_DEFINED))) == ()


def test_behind_its_calls_gemma_4_ends_though_its_end_is_text() -> None:
    assert end_token_ids(metadata_of(of_tokens("<|tool_response>", kind=USER_DEFINED))) == (1,)


def test_a_message_of_gpt_oss_ends_no_answer() -> None:
    tokens = ("<|return|>", "<|call|>", "<|end|>")
    assert end_token_ids(metadata_of(of_tokens(*tokens, eos_token_id=1))) == (1, 2)


def test_each_end_is_named_once() -> None:
    assert end_token_ids(metadata_of(of_tokens("<|im_end|>", eos_token_id=1, eot_token_id=1))) == (1,)


# --- the chat template --------------------------------------------------------------------------------------------

TEMPLATE, TEMPLATES = "tokenizer.chat_template", "tokenizer.chat_templates"


def test_the_chat_template_is_the_files() -> None:
    assert chat_template(metadata_of({}, **{TEMPLATE: "hello", TEMPLATES: ["rag"], f"{TEMPLATE}.rag": "x"})) == "hello"


def test_a_base_model_has_none() -> None:
    assert chat_template(metadata_of({})) is None


def test_of_several_templates_the_default_one_counts() -> None:
    named = {TEMPLATES: ["rag", "default"], f"{TEMPLATE}.rag": "x", f"{TEMPLATE}.default": "hello"}
    assert chat_template(metadata_of({}, **named)) == "hello"
    del named[f"{TEMPLATE}.default"]
    with pytest.raises(CheckpointError, match=rf"{FILE}: {TEMPLATES} names several"):
        chat_template(metadata_of({}, **named))


# --- malformed ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"tokens": None}, "tokens is missing"),
        ({"tokens": "a"}, "tokens is 'a', and should be a list"),
        ({"tokens": []}, "tokens is empty"),
        ({"tokens": ["a", "b", "c", "b"]}, "tokens has 'b' twice"),
        ({"token_type": None}, "token_type is missing"),
        ({"token_type": [1]}, "token_type has 1 entries for 4 tokens"),
        ({"token_type": [1, 1, 1, 7]}, "token_type has the unknown type 7"),
        ({"token_type": [1, 1, 1, 0]}, "token_type has the unknown type 0"),
        ({"model": None}, "model is missing"),
        ({"bos_token_id": "a"}, "bos_token_id is 'a'"),
    ],
)
def test_a_malformed_vocabulary_is_refused_by_key(keys: dict[str, object], message: str) -> None:
    with pytest.raises(CheckpointError, match=rf"{FILE}: tokenizer\.ggml\.{message}"):
        token_names(metadata_of(KEYS | keys))


def test_an_error_is_short_whatever_the_token() -> None:
    with pytest.raises(CheckpointError) as caught:
        Vocabulary.read(metadata_of(KEYS | {"tokens": ["x" * 10_000] * 4}))
    assert len(str(caught.value)) < 200
