"""An agent's loop over three tools: the same calls from each API, whatever family's format the model writes."""

from __future__ import annotations

from contextlib import AsyncExitStack

import httpx2
import pytest

from runtime.chat.chat import Chat
from runtime.chat.template import ChatTemplate
from tests.fakes.engine import FakeEngine, FakeRequest, finished, token
from tests.models.agent.families import FAMILIES, Family
from tests.models.agent.loop import THOUGHT, Agent, turns
from tests.models.agent.wires import WIRES, Wire
from tests.unit.web.apps import make
from tests.unit.web.http.transport.guarded import serving

SPLITS = {"at every character": 1, "at every seventh": 7}


async def run(
    family: Family, wire: Wire, length: int, *, stream: bool, sockets: bool = False
) -> tuple[Agent, list[str]]:
    """Run the loop on a model whose tokens have `length` characters; return the agent, and the prompts that it made."""
    answers = [family.answer(THOUGHT, text, calls) for text, calls in turns(family)]
    prompts: list[str] = []

    async def answer(request: FakeRequest) -> None:
        prompts.append(bytes(request.asked.prompts[0]).decode())
        text = answers[len(prompts) - 1]
        pieces = [text[start : start + length] for start in range(0, len(text), length)]
        request.emit(*map(token, pieces), finished(tokens=len(pieces)))

    engine = FakeEngine(answer)
    engine.model.context_length = 100_000
    engine.model.chat = Chat(ChatTemplate(family.template, {"eos_token": "</s>"}))
    async with AsyncExitStack() as stack:
        app = make(engine)
        if sockets:
            url = f"http://127.0.0.1:{(await stack.enter_async_context(serving(app))).port}"
            transport = None
        else:
            url, transport = "http://localhost", httpx2.ASGITransport(app=app)  # type: ignore[arg-type]  # Quart's types
        client = await stack.enter_async_context(httpx2.AsyncClient(transport=transport, base_url=url))
        agent = Agent(client, wire, stream)
        await agent.run()
    assert engine.live == {}
    return agent, prompts


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("family", FAMILIES, ids=[family.name for family in FAMILIES])
async def test_an_agent_gets_to_its_end(family: Family, split: str) -> None:
    asked: list[list[str]] = []
    for wire in WIRES:
        for stream in (False, True):
            agent, prompts = await run(family, wire, SPLITS[split], stream=stream)
            thought = THOUGHT if family.thought else ""
            expected = [(text, thought, calls, bool(calls)) for text, calls in turns(family)]
            assert [reply.says for reply in agent.replies] == expected, wire.path
            asked.append(prompts)
    if not family.random_ids:
        # What an API tells its client, and takes back, loses nothing on the way: each turn's prompt is the same.
        assert all(prompts == asked[0] for prompts in asked)
    assert "no such file: c.txt" in asked[0][-1]


@pytest.mark.parametrize("wire", WIRES, ids=[wire.path for wire in WIRES])
@pytest.mark.parametrize("name", ["hermes", "gemma", "harmony"])
async def test_over_sockets_too(name: str, wire: Wire) -> None:
    (family,) = (family for family in FAMILIES if family.name == name)
    for stream in (False, True):
        agent, _ = await run(family, wire, 1, stream=stream, sockets=True)
        assert [reply.says[2] for reply in agent.replies] == [calls for _, calls in turns(family)]
