"""Calls of scripted models through the engine and each API, with drafts and without; markers are tokens or text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from runtime.chat.chat import Chat
from runtime.chat.conversation import Tool
from runtime.chat.template import ChatTemplate
from runtime.loading.served import Proposer
from tests.models.agent.families import FAMILIES
from tests.models.agent.wires import WIRES
from tests.models.chat.rendered import rendered_call
from tests.models.scripted.serving import open_scripted
from tests.models.scripted.writing import write_scripted

if TYPE_CHECKING:
    from pathlib import Path

BY_NAME = {family.name: family for family in FAMILIES}
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
TOOL = {"name": "f", "description": "Does f.", "parameters": SCHEMA}
ARGUMENTS = {"a": 'é "</parameter>"\n</arg_value> or \\d {[\'\tC:\\Users', "b": 27}
ASKED = (("auto", None), ("auto", 12), ("required", None))
"""What to choose from, and the most tokens; Ollama's clients cannot require a call."""

MARKERS = {
    "hermes": ("<tool_call>", "</tool_call>"),
    "qwen-xml": ("<tool_call>", "</tool_call>"),
    "glm": ("<tool_call>", "</tool_call>"),
    "minimax": ("<minimax:tool_call>", "</minimax:tool_call>"),
    "kimi": (
        "<|tool_calls_section_begin|>",
        "<|tool_call_begin|>",
        "<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
    ),
}


@pytest.mark.parametrize("proposer", [Proposer.OFF, Proposer.NGRAM])
@pytest.mark.parametrize("tokens", [False, True], ids=["text", "tokens"])
@pytest.mark.parametrize("name", MARKERS)
async def test_a_call_arrives_and_a_broken_one_does_not(
    name: str, tokens: bool, proposer: Proposer, tmp_path: Path
) -> None:
    family = BY_NAME[name]
    chat = Chat(ChatTemplate(family.template, {"eos_token": "</s>"}))
    text = rendered_call(chat, Tool("f", "", SCHEMA), ARGUMENTS).removeprefix("</think>").strip()
    write_scripted(tmp_path, [text], family.template, MARKERS[name] if tokens else ())
    async with open_scripted(tmp_path, proposer) as client:
        for wire in WIRES:
            for stream in (False, True):
                for choice, limit in ASKED[: 3 if wire.path != "/api/chat" else 2]:
                    body = wire.body(["0 go"], [TOOL], stream=stream, choice=choice)
                    more = {} if limit is None else _limit(wire.path, limit)
                    response = await client.post(wire.path, json=body | {"temperature": 0} | more)
                    assert response.status_code == 200, response.text
                    reply = wire.streamed(response.text) if stream else wire.whole(response.json())
                    calls = [(call.name, json.loads(call.arguments)) for call in reply.calls if reply.calling]
                    assert calls == ([("f", ARGUMENTS)] if limit is None else []), response.text
                    assert not any(tag in reply.text for tag in ("<tool", "<function", "<parameter", "<|"))


def _limit(path: str, tokens: int) -> dict[str, Any]:
    match path:
        case "/v1/responses":
            return {"max_output_tokens": tokens}
        case "/api/chat":
            return {"options": {"num_predict": tokens}}
    return {"max_tokens": tokens}
