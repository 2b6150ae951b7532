"""An agent's loop: it asks, carries out what is called, and asks again until nothing is called any more."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.models.agent.wires import Result

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx2

    from tests.models.agent.families import Calls, Family
    from tests.models.agent.wires import History, Reply, Wire

QUESTION = "How many words has a.txt?"
FILES = {"a.txt": 'one "two"\n{three} \\ <b> 東京', "b.txt": "four"}
STRING = {"type": "string"}
PROPERTIES: dict[str, Any] = {"list_files": {}, "read_file": {"name": STRING}, "count_words": {"text": STRING}}
TOOLS = [
    {
        "name": name,
        "description": f"Does {name}.",
        "parameters": {"type": "object", "properties": given, "required": list(given)},
    }
    for name, given in PROPERTIES.items()
]
CARRIED_OUT: dict[str, Callable[..., str]] = {
    "list_files": lambda: json.dumps(sorted(FILES)),
    "read_file": lambda name: FILES.get(name, f"no such file: {name}"),
    "count_words": lambda text: str(len(text.split())),
}

CALLS: list[Calls] = [
    [("list_files", {})],
    [("read_file", {"name": "a.txt"}), ("read_file", {"name": "c.txt"})],
    [("count_words", {"text": FILES["a.txt"]})],
]
THOUGHT, FIRST_TEXT, LAST_TEXT = "Let me see.", "I look around.", "a.txt has 5 words."


def turns(family: Family) -> list[tuple[str, Calls]]:
    """Return what the model says and calls in each turn, the last of which has no call."""
    calls = CALLS if family.parallel else [[one] for several in CALLS for one in several]
    texts = ["" if family.name == "harmony" else FIRST_TEXT, *[""] * len(calls)]  # gpt-oss says nothing beside a call
    return [*zip(texts, calls, strict=False), (LAST_TEXT, [])]


@dataclass
class Agent:
    """An agent that speaks one wire format.

    Attributes:
        client: of the server.
        wire: the format.
        stream: have the answers streamed.
        history: what was said so far.
        replies: the model's part of it.
    """

    client: httpx2.AsyncClient
    wire: Wire
    stream: bool
    history: History = field(default_factory=lambda: [QUESTION])
    replies: list[Reply] = field(default_factory=list)

    async def run(self, most: int = 10) -> None:
        """Run the loop, of at most so many turns."""
        for _ in range(most):
            body = self.wire.body(self.history, TOOLS, stream=self.stream)
            response = await self.client.post(self.wire.path, json=body)
            assert response.status_code == 200, response.text
            reply = self.wire.streamed(response.text) if self.stream else self.wire.whole(response.json())
            self.replies.append(reply)
            self.history.append(reply)
            if not reply.calling:
                return
            for call in reply.calls:
                self.history.append(Result(call, CARRIED_OUT[call.name](**json.loads(call.arguments))))
        raise AssertionError("the agent came to no end")
