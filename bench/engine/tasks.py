"""Prompts whose answers repeat much of what they were given: edits and quotations of real text.

What is looked up in the text so far (`ngram`) drafts such answers.  A chat model is asked in its own template; a base
model is given the text twice, the second time cut short.
"""

from __future__ import annotations

import enum
from pydoc_data.topics import topics
from typing import TYPE_CHECKING

from bench.corpus import held_out_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.loading.served import ServedModel

CHARACTERS = 600  # of a text
REPEATED = 200  # of the second copy, where a base model goes on


class Task(enum.StrEnum):
    """Task that is asked for."""

    COMPLETE = "complete"  # code, once
    COPY = "copy"  # code, twice
    EDIT = "edit"  # a small change to code
    QUOTE = "quote"  # prose, word for word


_ASKED = {
    Task.EDIT: "Add one comment line at the top of this Python code and repeat the rest unchanged:\n\n{text}",
    Task.QUOTE: "Repeat the following text word for word:\n\n{text}",
}


def task_prompts(served: ServedModel, task: Task, count: int) -> list[list[int]]:
    """Return up to `count` prompts as token ids."""
    texts = [text[:CHARACTERS] for text in _texts(task) if len(text) >= CHARACTERS][:count]
    return [_prompt(served, task, text) for text in texts]


def _texts(task: Task) -> Sequence[str]:
    """Held-out code of the embedded model's corpus, or Python's own documentation."""
    return [topics[name] for name in sorted(topics)] if task is Task.QUOTE else held_out_files()


def _prompt(served: ServedModel, task: Task, text: str) -> list[int]:
    encode = served.tokenizer.encode
    if task in _ASKED and served.chat is not None:
        message = {"role": "user", "content": _ASKED[task].format(text=text)}
        return encode(served.chat.template.render([message]), add_special_tokens=False)
    return encode(text if task is Task.COMPLETE else f"{text}\n\n\n{text[:REPEATED]}")
