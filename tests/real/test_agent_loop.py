"""An agent's loop over three tools on a real model, which is made to call, from every API.

SmolLM2 is too small to call of its own accord, so the loop says what is to be called, as a client with a plan of its
own would, and the grammar holds the model to it.  What it puts into its arguments is its own; at temperature 0 it is
the same from every API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from tests.live.server import PATIENCE, Server
from tests.models.agent.loop import Agent
from tests.models.agent.wires import Call, Chat, Messages, Ollama, Reply, Responses

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.models.agent.wires import Wire

pytestmark = pytest.mark.real

NAME = {"enum": ["a.txt", "b.txt"]}
TEXT = {"type": "string", "maxLength": 40}
PROPERTIES: dict[str, Any] = {"list_files": {}, "read_file": {"name": NAME}, "count_words": {"text": TEXT}}
TOOLS = [
    {
        "name": name,
        "description": f"Does {name}.",
        "parameters": {"type": "object", "properties": given, "required": [*given], "additionalProperties": False},
    }
    for name, given in PROPERTIES.items()
]
PLAN = ["list_files", "read_file", "required", "auto"]
COLD = {"temperature": 0}


@pytest.fixture(scope="module")
def server(smollm2: Path) -> Iterator[Server]:
    with Server("--model", str(smollm2), "--slots", "2", "--context", "4096", "--dtype", "float32") as server:
        yield server


async def run(server: Server, wire: Wire, *, stream: bool) -> list[Reply]:
    async with httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE) as client:
        agent = Agent(client, wire, stream, tools=TOOLS, more={**COLD, **LIMITS[wire.path]})
        for choice in PLAN:
            reply = await agent.ask(choice)
            if choice != "auto":
                assert reply.calling
                assert 1 <= len(reply.calls) <= (8 if choice == "required" else 1)
                assert choice in ("required", reply.calls[0].name)
            agent.carry_out(reply)
    return agent.replies


LIMITS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"max_tokens": 300},
    "/v1/responses": {"max_output_tokens": 300},
    "/v1/messages": {"max_tokens": 300},
    "/api/chat": {"options": {"temperature": 0, "num_predict": 300}},
}


async def test_it_makes_the_same_calls_from_each_api(server: Server) -> None:
    """What it says of its own accord, behind them, is left out: APIs write one object of arguments in several ways."""
    loops: list[tuple[Wire, bool]] = [(Chat(), False), (Chat(), True), (Responses(), True), (Messages(), True)]
    called = [[reply.says[2] for reply in await run(server, wire, stream=stream)][:-1] for wire, stream in loops]
    assert [name for ((name, _), *_) in called[0]][:2] == PLAN[:2]
    assert called == [called[0]] * len(loops)
    server.wait_idle()


async def test_ollama_s_api_goes_on_with_the_same_chat(server: Server) -> None:
    """It cannot require a call; behind calls and their results it says what the others say.

    The first answer is left out: its prompt alone is read anew, in whatever chunks, whose rounding may let two tokens
    that are about as likely change places.
    """
    files = Call("call_1", "list_files", "{}")
    said = []
    async with httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE) as client:
        for wire, stream in ((Chat(), False), (Chat(), False), (Chat(), True), (Ollama(), False), (Ollama(), True)):
            agent = Agent(client, wire, stream, tools=TOOLS, more={**COLD, **LIMITS[wire.path]})
            called = Reply("", "", [files], calling=True)
            agent.history.append(called)
            agent.carry_out(called)
            said.append((await agent.ask()).says)
    del said[0]
    assert said[0][0] or said[0][2]
    assert said == [said[0]] * len(said)
    server.wait_idle()
