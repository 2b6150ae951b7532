"""An agent's loop over three tools, with the official client and a model whose answers are scripted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anthropic
import httpx2
import pytest

from tests.fakes.engine import FakeEngine, FakeRequest, finished, token
from tests.unit.web.apps import make

if TYPE_CHECKING:
    from collections.abc import Callable

    from anthropic.types import ToolUseBlock

FILES = {"a.txt": "one two", "b.txt": "three"}
TOOLS: dict[str, Callable[..., str]] = {
    "list_files": lambda: json.dumps(sorted(FILES)),
    "read_file": lambda name: FILES[name],
    "count_words": lambda text: str(len(text.split())),
}
STRING = {"type": "string"}
PROPERTIES: dict[str, Any] = {"list_files": {}, "read_file": {"name": STRING}, "count_words": {"text": STRING}}
SCHEMAS: Any = [
    {"name": name, "description": name, "input_schema": {"type": "object", "properties": properties}}
    for name, properties in PROPERTIES.items()
]


def call(tool: str, **given: str) -> str:
    """Return a call as models of Hermes' format write it."""
    return f"<tool_call>\n{json.dumps({'name': tool, 'arguments': given})}\n</tool_call>"


ANSWERS = [
    "I look around.\n" + call("list_files"),
    call("read_file", name="a.txt") + "\n" + call("read_file", name="c.txt"),
    call("count_words", text="one two"),
    "a.txt has 2 words.",
]


def said(turn: int, answers: list[str]) -> list[str]:
    """Return a turn's answer in the pieces that a model might write it in."""
    text = answers[turn]
    return [text[start : start + 3] for start in range(0, len(text), 3)]


def result_of(use: ToolUseBlock) -> dict[str, Any]:
    """Return the block of what a tool returns, or of its failure."""
    block = {"type": "tool_result", "tool_use_id": use.id}
    try:
        return block | {"content": TOOLS[use.name](**use.input)}
    except KeyError as error:
        return block | {"content": f"no such file: {error}", "is_error": True}


@pytest.mark.parametrize("stream", [False, True])
async def test_an_agent_gets_to_its_end(stream: bool) -> None:
    prompts: list[str] = []

    async def answer(request: FakeRequest) -> None:
        prompts.append(bytes(request.asked.prompts[0]).decode())
        request.emit(*(token(piece) for piece in said(len(prompts) - 1, ANSWERS)), finished())

    engine = FakeEngine(answer)
    engine.model.context_length = 100_000
    web = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=make(engine)))  # type: ignore[arg-type]  # Quart's types
    client = anthropic.AsyncAnthropic(base_url="http://localhost", api_key="none", http_client=web, max_retries=0)
    messages: Any = [{"role": "user", "content": "How many words has a.txt?"}]
    used: list[str] = []
    for _ in ANSWERS:
        asked: Any = {"model": "any", "max_tokens": 900, "messages": messages, "tools": SCHEMAS}
        if stream:
            async with client.messages.stream(**asked) as events:
                message: anthropic.types.Message = await events.get_final_message()
        else:
            message = await client.messages.create(**asked)
        uses = [block for block in message.content if block.type == "tool_use"]
        used += [use.name for use in uses]
        messages.append({"role": "assistant", "content": message.content})
        if message.stop_reason != "tool_use":
            break
        messages.append({"role": "user", "content": [result_of(use) for use in uses]})
    await client.close()
    (last,) = message.content
    assert last.type == "text"
    assert (last.text, message.stop_reason) == (ANSWERS[-1], "end_turn")
    assert used == ["list_files", "read_file", "read_file", "count_words"]
    assert '["a.txt", "b.txt"]' in prompts[1]
    assert "Error: no such file" in prompts[2]
    assert "one two" in prompts[2]
    assert engine.live == {}
