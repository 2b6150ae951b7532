"""Calls of scripted models, in each format, through the engine and each API, with drafts and without."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runtime.chat.chat import Chat
from runtime.chat.conversation import Conversation, Tool, Turn
from runtime.chat.template import ChatTemplate
from runtime.loading.served import Proposer
from tests.models.agent.families import FAMILIES, Family
from tests.models.agent.wires import WIRES
from tests.models.scripted.serving import open_scripted
from tests.models.scripted.writing import write_scripted

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
TOOL = {"name": "f", "description": "Does f.", "parameters": SCHEMA}
ASKING = Conversation([Turn("user", "Hi")], tools=[Tool("f", "", SCHEMA)])
ARGUMENTS = {"a": 'é "</parameter>"\n</arg_value> or \\d {[\'\tC:\\Users', "b": 27}
ASKED = (("auto", None), ("auto", 12), ("required", None))
"""What to choose from, and the most tokens; Ollama's clients cannot require a call."""

CASES = [
    pytest.param(family, tokens, id=f"{family.name}-{'tokens' if tokens else 'text'}")
    for family in FAMILIES
    for tokens in (False, True)
    if tokens or family.name != "harmony"  # the marker at the end of its calls has to be a token
]


@pytest.mark.parametrize(("family", "tokens"), CASES)
async def test_a_call_arrives_and_a_broken_one_does_not(family: Family, tokens: bool, tmp_path: Path) -> None:
    text = family.write([("f", ARGUMENTS)]).strip().removeprefix("<|start|>assistant")
    markers = Chat(ChatTemplate(family.template, {"eos_token": "</s>"})).prompt(ASKING).visible
    added = [marker for marker in sorted(markers) if tokens and text.count(marker) == 1]
    write_scripted(tmp_path, [text], family.template, added)
    async with open_scripted(tmp_path, Proposer.NGRAM if tokens else Proposer.OFF) as client:
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
