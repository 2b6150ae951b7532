"""Prompts for speculation: a chat model is asked, a base model goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.engine.tasks import CHARACTERS, Task, task_prompts
from runtime.chat.chat import Chat
from runtime.chat.template import ChatTemplate
from runtime.checkpoint.open import Checkpoint
from runtime.loading.options import LoadOptions
from runtime.loading.served import ServedModel


@pytest.mark.parametrize("task", Task)
def test_a_base_model_is_given_the_text(task: Task, loaded: tuple[LoadOptions, Checkpoint, ServedModel]) -> None:
    served = replace(loaded[2], chat=None)
    prompts = [served.tokenizer.decode(prompt) for prompt in task_prompts(served, task, 2)]
    assert len(prompts) == 2
    for prompt in prompts:
        assert (len(prompt) > CHARACTERS) == (task is not Task.COMPLETE)
        assert prompt.endswith(prompt[:100]) or task is Task.COMPLETE or prompt[:100] in prompt[CHARACTERS:]


@pytest.mark.parametrize("task", [Task.EDIT, Task.QUOTE])
def test_a_chat_model_is_asked(task: Task, loaded: tuple[LoadOptions, Checkpoint, ServedModel]) -> None:
    template = ChatTemplate("<user>{{ messages[0].content }}<assistant>")
    served = replace(loaded[2], chat=Chat(template))
    (prompt,) = task_prompts(served, task, 1)
    assert served.tokenizer.decode(prompt).startswith("<user>")
    assert served.tokenizer.decode(prompt).endswith("<assistant>")
