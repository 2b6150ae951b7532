"""Budgets of thought, through the engine, with drafts of each kind; the calls behind them are as without."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from runtime.loading.served import Proposer
from tests.models.agent.families import FAMILIES, Family
from tests.models.agent.wires import Chat
from tests.models.scripted.serving import open_scripted
from tests.models.scripted.writing import write_scripted

BY_NAME = {family.name: family for family in FAMILIES}
MARKERS = {
    "hermes": ("<tool_call>", "</tool_call>"),
    "glm": ("<tool_call>", "</tool_call>"),
    "gemma": ("<|tool_call>", "<tool_call|>"),
}
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
TOOL = {"name": "f", "description": "Does f.", "parameters": SCHEMA}
ARGUMENTS = {"a": 'one "two" {three}', "b": 27}
WORDS = (10, 60, 400)
"""Of the thoughts; most are two or three tokens."""

CONTEXT = 8192
BUDGETS = (20, 2000)
EACH = 1
"""Requests to a model, of which each is asked for with a call that is required and with one that is not."""


def _write(folder: Path, family: Family, words: int) -> tuple[list[int], Tokenizer]:
    """Write a model that thinks so many words and then calls; return the tokens of its thought."""
    assert family.thought
    opening, closing = family.thought
    dice = random.Random(words)
    thought = " ".join("".join(dice.choices("abcdefghij", k=dice.randint(2, 9))) for _ in range(words))
    text = f"{opening}{thought}{closing}{family.write([('f', ARGUMENTS)]).lstrip()}"
    marks = opening.partition("thought")[0].strip(), closing.strip()
    write_scripted(folder, [text], family.template, (*marks, *MARKERS[family.name]), context=CONTEXT)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    inside = text.partition(marks[0])[2].partition(marks[1])[0]
    return tokenizer.encode(inside).ids, tokenizer


@pytest.mark.parametrize("proposer", [Proposer.OFF, Proposer.NGRAM, Proposer.DRAFT])
@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("name", MARKERS)
async def test_a_thought_ends_within_its_budget_and_the_call_is_made(
    name: str, words: int, proposer: Proposer, tmp_path: Path
) -> None:
    dice = random.Random(f"{name} {words} {proposer}")
    ids, tokenizer = _write(tmp_path, BY_NAME[name], words)
    label = "thought" if name == "gemma" else ""
    labels = next(count for count in range(len(ids)) if tokenizer.decode(ids[:count]).startswith(label))
    async with open_scripted(tmp_path, proposer, context=CONTEXT) as client:
        for _ in range(EACH):
            budget = round(math.exp(dice.uniform(*map(math.log, BUDGETS))))
            for choice in ("auto", "required"):
                body = Chat().body(["0 go"], [TOOL], stream=False, choice=choice)
                response = await client.post(Chat.path, json=body | {"temperature": 0, "thinking_budget": budget})
                assert response.status_code == 200, response.text
                reply = Chat().whole(response.json())
                assert [(call.name, json.loads(call.arguments)) for call in reply.calls] == [("f", ARGUMENTS)]
                assert reply.text == ""
                shown = tokenizer.decode(ids[: labels + budget], skip_special_tokens=False)
                assert reply.reasoning.strip() == shown.removeprefix(label).strip()
                details = response.json()["usage"]["completion_tokens_details"]
                assert details["reasoning_tokens"] <= labels + budget + 2
