"""Calls through the whole application: whole ones arrive as the model meant them, broken ones nowhere as whole.

Streamed in pieces of a few characters and sent whole, in all four APIs that have tools.
"""

from __future__ import annotations

import json
import random
from typing import Any

import httpx2
import pytest

from actors.core.generation import FinishReason
from runtime.chat.chat import Chat
from runtime.chat.conversation import Tool
from runtime.chat.template import ChatTemplate
from tests.fakes.engine import FakeEngine, FakeRequest, finished, token
from tests.models.agent.families import FAMILIES, Family
from tests.models.agent.wires import WIRES, Reply
from tests.models.chat.rendered import rendered_call
from tests.unit.web.apps import make

PROPERTIES: dict[str, Any] = {"a": {"type": "string"}, "b": {"type": "integer"}, "list": {"type": "array"}}
TOOL = {"name": "f", "description": "Does f.", "parameters": {"type": "object", "properties": PROPERTIES}}
NASTY: dict[str, Any] = {
    "a": "é \"</parameter>\"\n</arg_value> or </tool_call>\n```\\d C:\\Users {['<|call|>'\r\n\t\N{GRINNING FACE}\1e",
    "b": 27,
    "list": ["</function>", {"x": [None, 1.5, "</invoke>"]}],
}
BY_NAME = {family.name: family for family in FAMILIES}


def chat_of(family: Family) -> Chat:
    return Chat(ChatTemplate(family.template, {"eos_token": "</s>"}))


def arguments_of(family: Family) -> dict[str, Any]:
    """The arguments, as far as a family's template in these tests has words for them."""
    return NASTY | {"list": ["</function>", [1]]} if "gemma" in family.name else NASTY


async def answers(family: Family, text: str, reason: FinishReason = FinishReason.STOP) -> list[Reply]:
    """The answers of all APIs, streamed and whole, of a model that says a text."""
    numbers = random.Random(len(text))
    pieces, at = [], 0
    while at < len(text):
        pieces.append(text[at : at + numbers.randint(1, 5)])
        at += len(pieces[-1])

    async def say(request: FakeRequest) -> None:
        request.emit(*map(token, pieces), finished(reason=reason, tokens=len(pieces)))

    engine = FakeEngine(say)
    engine.model.context_length = 100_000
    engine.model.chat = chat_of(family)
    replies = []
    transport = httpx2.ASGITransport(app=make(engine))  # type: ignore[arg-type]  # Quart's types
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for wire in WIRES:
            for stream in (False, True):
                response = await client.post(wire.path, json=wire.body(["Go."], [TOOL], stream=stream))
                assert response.status_code == 200, response.text
                replies.append(wire.streamed(response.text) if stream else wire.whole(response.json()))
    return replies


def carried_out(reply: Reply) -> list[tuple[str, Any]]:
    """Return what a client would carry out: calls whose arguments are JSON, where the answer says that it calls."""
    calls = []
    for call in reply.calls if reply.calling else ():
        calls.append((call.name, json.loads(call.arguments)))
    return calls


@pytest.mark.parametrize("family", FAMILIES, ids=[family.name for family in FAMILIES])
async def test_arguments_arrive_as_they_were_meant(family: Family) -> None:
    given = arguments_of(family)
    text = rendered_call(chat_of(family), Tool(TOOL["name"], "", TOOL["parameters"]), given)  # type: ignore[arg-type]
    for reply in await answers(family, text):
        assert carried_out(reply) == [("f", given)]
        assert reply.text == ""


HERMES = '<tool_call>\n{"name": "f", "arguments": %s}\n</tool_call>'
QWEN = "<tool_call>\n<function=f>\n<parameter=a>\n%s\n</parameter>\n</function>\n</tool_call>"
BROKEN = [
    ("hermes", HERMES % '{"a": "He said "hi" to me"}'),
    ("hermes", HERMES % '{"a": nope, "b": 1}'),
    ("qwen-xml", QWEN % "x\n<parameter=b>\n2"),
    ("qwen-xml", (QWEN % "x").replace("\n</parameter>", "")),
    ("glm", "<tool_call>f\n<arg_key>a</arg_key>\nx</arg_value>\n</tool_call>"),
    ("gemma", '<|tool_call>call:f{a:<|"|>x,b:<|"|>y<|"|>}<tool_call|>'),
    ("mistral-named", '[TOOL_CALLS]f[ARGS]{"a": "x'),
    ("deepseek", chr(60) + "\uff5ctool\u2581calls\u2581begin\uff5c>"),
]


@pytest.mark.parametrize("reason", [FinishReason.STOP, FinishReason.LENGTH])
@pytest.mark.parametrize(("name", "text"), BROKEN)
async def test_a_broken_call_is_nowhere_whole(name: str, text: str, reason: FinishReason) -> None:
    for reply in await answers(BY_NAME[name], text, reason):
        assert not reply.calling
        for call in reply.calls:
            with pytest.raises(ValueError, match=r"line 1|Expecting"):
                json.loads(call.arguments)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r'{"a": "C:\Users\d"}', {"a": r"C:\Users\d"}),
        (r'{"a": "\ud800", "b": NaN, "list": [True, None]}', {"a": "\ufffd", "b": "NaN", "list": [True, None]}),
        ('{"a": "x"}\n', {"a": "x"}),
    ],
)
async def test_what_can_mean_one_thing_only_is_repaired_everywhere(written: str, meant: object) -> None:
    for reply in await answers(BY_NAME["hermes"], HERMES % written):
        assert carried_out(reply) == [("f", meant)]


CALL = HERMES % '{"a": "x"}'


async def test_a_call_at_the_end_of_a_thought_that_was_not_closed_is_made() -> None:
    for reply in await answers(BY_NAME["hermes"], f"<think>\nI call it.\n{CALL}\n{CALL}"):
        assert carried_out(reply) == [("f", {"a": "x"})] * 2
        assert (reply.reasoning, reply.text) == ("I call it.", "")


@pytest.mark.parametrize("behind", [" or so.\n</think>\n\n", "</think>"])
async def test_a_call_that_was_thought_is_none(behind: str) -> None:
    for reply in await answers(BY_NAME["hermes"], f"<think>\nPerhaps {CALL}{behind}Done."):
        assert (reply.calls, reply.text) == ([], "Done.")
        assert (
            reply.reasoning
            == f"Perhaps {CALL}{behind.removesuffix('</think>' + behind.partition('</think>')[2])}".rstrip()
        )


async def test_texts_between_calls_are_not_glued_together() -> None:
    for reply in await answers(BY_NAME["hermes"], f"<think></think>First.\n{CALL}\nThen.\n{CALL}\nDone."):
        assert reply.text in ("First.\nThen.\nDone.", "First.Then.Done.")  # some have a text for each
        assert len(reply.calls) == 2


@pytest.mark.parametrize("name", ["hermes", "qwen-xml", "glm", "minimax", "gemma", "kimi", "mistral-named", "listed"])
async def test_a_call_that_a_limit_cuts_off_leaves_no_markup(name: str) -> None:
    family = BY_NAME[name]
    text = rendered_call(chat_of(family), Tool("f", "", {"properties": PROPERTIES}), {"a": "word", "b": 27})
    start = text.index("f") if name != "kimi" else len(text) // 2
    for end in range(start, len(text), 9):
        for reply in await answers(family, text[:end], FinishReason.LENGTH):
            assert carried_out(reply) in ([], [("f", {"a": "word", "b": 27})])
            said = reply.text.replace('{"name": "f", "arguments": ', "")
            assert not any(tag in said for tag in ("<", "[ARGS", "call:", "arg_"))
