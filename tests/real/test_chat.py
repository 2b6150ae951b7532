"""SmolLM2's chat template, as transformers renders it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from runtime.chat.template import ChatTemplate
from runtime.checkpoint.open import open_checkpoint
from runtime.text.tokenizer import Tokenizer

pytestmark = pytest.mark.real

USER, ASSISTANT, SYSTEM = "user", "assistant", "system"
CONVERSATIONS: list[list[dict[str, Any]]] = [
    [{"role": role, "content": content} for role, content in turns]
    for turns in (
        [(USER, "What is the capital of France?")],
        [(SYSTEM, "Answer in one word."), (USER, "What is the capital of France?")],
        [(USER, "Hello!"), (ASSISTANT, "Hello. How can I help?"), (USER, "Tell me a joke.")],
        [(SYSTEM, ""), (USER, "")],
        [(USER, "  spaces, \n\n lines and <|im_end|> itself\n"), (ASSISTANT, "{{ 1 + 1 }} {% if x %}"), (USER, "2")],
        [(USER, "日本語 🙂 مرحبا"), (ASSISTANT, "…"), (SYSTEM, "late"), (USER, "ok")],
    )
]


@pytest.fixture(scope="module")
def theirs(smollm2: Path) -> Any:  # noqa: ANN401
    checkpoint = open_checkpoint(smollm2)
    return PreTrainedTokenizerFast(tokenizer_object=checkpoint.tokenizer(), **checkpoint.token_names())


@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize("messages", CONVERSATIONS)
def test_prompts_are_those_of_transformers(
    smollm2: Path,
    theirs: Any,  # noqa: ANN401
    messages: list[dict[str, Any]],
    asks: bool,
) -> None:
    checkpoint = open_checkpoint(smollm2)
    template = ChatTemplate.load(checkpoint)
    assert template is not None
    ours = template.render(messages, add_generation_prompt=asks)
    arguments = {"chat_template": checkpoint.chat_template(), "add_generation_prompt": asks}
    assert ours == theirs.apply_chat_template(messages, tokenize=False, **arguments)
    ids = Tokenizer.load(checkpoint).encode(ours, add_special_tokens=False)
    assert ids == theirs.apply_chat_template(messages, tokenize=True, return_dict=False, **arguments)


def test_a_base_model_has_no_template(gemma3: Path) -> None:
    assert ChatTemplate.load(open_checkpoint(gemma3)) is None
