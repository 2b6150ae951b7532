"""Answers that are sent whole: they are made and sent in pieces, and others run in between."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from actors.core.generation import Failed, GenerationRequest
from actors.core.receipts import CancelReason, Receipt
from actors.core.slot_views import SlotStatus
from runtime.errors import StepFailed
from tests.fakes.engine import Exchange, FakeEngine, FakeRequest, as_engine, finished, posting
from tests.unit.web.generation.openai_format.answers.whole_answers import TEXT, bulky
from web.bodies.json_encoding import BLOCK
from web.process.limits import Limits
from web.serving.app import create_app


class Turns:
    """Counts how often another task had its turn."""

    def __init__(self) -> None:
        self.count = 0

    async def run(self) -> None:
        """Count turns for ever."""
        while True:
            self.count += 1
            await trio.lowlevel.checkpoint()


class Watched(Exchange):
    """A client whose reading costs no turns; `turns` are those that another task had before each write."""

    turns: Turns
    before: list[int]
    sizes: list[int]

    async def app_sends(self, message: Any) -> None:  # noqa: ANN401
        """Note how many turns the other task has had, and how much is written."""
        self.before.append(self.turns.count)
        self.sizes.append(len(message.get("body", b"")))
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        elif message["body"]:
            self._from_app.send_nowait(message["body"])


def take_turns(counts: list[int]) -> bool:
    """Return whether the other task ran between the writes; in which order two tasks take turns, Trio draws by lot."""
    return all(later > earlier for earlier, later in zip(counts, counts[2:], strict=False))


def watched() -> type[Watched]:
    class Mine(Watched):
        turns = Turns()
        before: list[int] = []  # noqa: RUF012
        sizes: list[int] = []  # noqa: RUF012

    return Mine


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Characters of each piece of JSON that is made, the request's body first."""
    sizes: list[int] = []
    encode = json.JSONEncoder.encode

    def spy(self: json.JSONEncoder, value: object) -> str:
        made = encode(self, value)
        sizes.append(len(made))
        return made

    monkeypatch.setattr(json.JSONEncoder, "encode", spy)
    return sizes


async def fetch(engine: FakeEngine, path: str, body: dict[str, Any]) -> tuple[Any, type[Watched]]:
    """The answer, and how it came; others run meanwhile."""
    client = watched()
    if isinstance(engine, Left):
        engine.turns = client.turns
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.turns.run)
        async with posting(create_app(as_engine(engine)), path, body, exchange=client) as connection:
            data = await connection.receive_all()
        nursery.cancel_scope.cancel()
    assert connection.status == 200
    assert connection.headers["content-length"] == str(len(data))
    return json.loads(data), client


async def test_a_large_answer_is_made_and_sent_in_pieces(encoded: list[int]) -> None:
    events = [*bulky(400, 0), *bulky(400, 1)]
    engine = FakeEngine(events)
    body = {"prompt": "hi", "n": 2, "logprobs": 20, "return_token_ids": True}
    answer, client = await fetch(engine, TEXT, body)
    assert [len(choice["token_ids"]) for choice in answer["choices"]] == [400, 400]
    assert sum(client.sizes) > 400_000
    assert max(client.sizes) <= Limits().write_bytes
    assert max(encoded[1:]) < 3000, "no more than one token's log-probabilities at a time"
    assert take_turns(client.before[1:-1])


class Left(FakeEngine):
    """Knows when its request was left, which is before the answer is made."""

    turns: Turns
    turns_when_left = 0

    @asynccontextmanager
    async def open_request(
        self, asked: GenerationRequest, *, disconnect_reason: Callable[[], CancelReason]
    ) -> AsyncIterator[FakeRequest]:
        """Open a request, and note the turns when it is left."""
        async with super().open_request(asked, disconnect_reason=disconnect_reason) as request:
            yield request
        self.turns_when_left = self.turns.count


async def test_others_run_while_an_answer_is_made(encoded: list[int]) -> None:
    """A prompt's ids, several times over: nothing of it comes with an event."""
    length = 20 * BLOCK
    engine = Left([finished(index) for index in range(8)])
    engine.model.context_length = 2 * length
    body = {"prompt": [7] * length, "n": 8, "return_token_ids": True, "echo": True}
    answer, client = await fetch(engine, TEXT, body)
    assert all(choice["prompt_token_ids"] == [7] * length for choice in answer["choices"])
    assert client.before[0] - engine.turns_when_left > 8 * length // Limits().write_bytes, (
        "turns before the first write"
    )
    assert max(client.sizes) <= Limits().write_bytes
    assert max(encoded[1:]) <= 12 * BLOCK


@pytest.mark.parametrize("path", ["/slots", "/v1/receipts"])
async def test_long_lists_are_made_and_sent_in_pieces(path: str, encoded: list[int]) -> None:
    class Many(FakeEngine):
        def slots(self) -> list[SlotStatus]:
            return [SlotStatus(n, "idle", None, 0, 5, 4) for n in range(3000)]

    class Getting(watched()):  # type: ignore[misc]
        def __init__(self, path: str, state: dict[str, Any], headers: dict[str, str]) -> None:
            super().__init__(path, state, headers)
            self._scope["method"] = "GET"

    engine = Many()
    engine.log = [
        Receipt(f"cmpl-{i}", 0, CancelReason.DISCONNECT, "prefill", 1.0, 1.5, 2.0, 9, 1, 8, 6, 2, 1, 4, 3)
        for i in range(101)
    ] * 10
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Getting.turns.run)
        async with posting(create_app(as_engine(engine)), path, b"", exchange=Getting) as connection:
            (rows,) = json.loads(await connection.receive_all()).values()
        nursery.cancel_scope.cancel()
    assert len(rows) in (3000, 100)
    assert max(encoded) < 1000
    assert max(Getting.sizes) <= Limits().write_bytes
    assert engine.unread.statistics().bytes == 0


async def test_a_failure_at_the_end_is_still_an_error() -> None:
    engine = FakeEngine([*bulky(400)[:-1], Failed(0, StepFailed("broken"))])
    response = await create_app(as_engine(engine)).test_client().post(TEXT, json={"prompt": "hi", "logprobs": 20})
    assert response.status_code == 500
    assert (await response.get_json())["error"]["code"] == "step_failed"
    assert engine.unread.statistics().bytes == 0
