"""Answers that are sent whole: what they say, how they are made and sent, and who goes when too much is unread."""

from __future__ import annotations

import gc
import itertools
import json
import random
import weakref
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from actors.core.generation import Failed, FinishReason, Token
from actors.core.receipts import CancelReason, Receipt
from actors.core.slots import SlotState, SlotStatus
from actors.generating.unread import Unread
from runtime.errors import StepFailed
from runtime.sampling.tokens import TokenLogprobs
from tests.fakes.engine import Exchange, FakeEngine, FakeRequest, as_engine, chat, completion, finished, posting
from web.app import create_app
from web.bodies.json_encoding import BLOCK, PageBuffer, iter_json
from web.limits import Limits
from web.openai.formats import UsageCounter
from web.openai.response_builder import ResponseBuilder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from actors.core.generation import Event, GenerationRequest
    from web.openai.conversion import ParsedRequest
    from web.openai.formats import Json

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
PAGE = 1000


# --- what they say ----------------------------------------------------------------------------------------------------


def in_one_piece(parsed: ParsedRequest, events: Sequence[Event]) -> Json:
    """The response object as it was made before it came in pieces."""
    options, format, tally = parsed.options, parsed.format, UsageCounter(parsed.options)
    shown = []
    for index in range(options.choices):
        mine = [event for event in events if event.index == index and not isinstance(event, Failed)]
        tokens = [event for event in mine if isinstance(event, Token)]
        (end,) = [event for event in mine if not isinstance(event, Token)]
        tally.add(end)
        text = (options.echo[index] if options.echo else "") + "".join(event.text for event in mine)
        choice: Json = {"index": index, "logprobs": None, "finish_reason": end.reason} | format.message(text)
        if options.logprobs:
            choice["logprobs"] = format.logprobs(tokens, options.tokenizer, 0)
        if options.token_ids:
            choice["token_ids"] = [token.token_id for token in tokens]
            choice |= format.prompt_ids(options, index)[1]
        shown.append(choice)
    answer = options.envelope(format.full) | {"choices": shown}
    if options.token_ids:
        answer |= format.prompt_ids(options, 0)[0]
    return answer | {"usage": tally.usage(), "timings": tally.timings()}


def said(draw: random.Random, choices: int, alternatives: int | None) -> list[Event]:
    """The events of several choices, each in its order, with tokens of all kinds."""
    told: list[list[Event]] = []
    for index in range(choices):
        count = draw.randrange(6)
        told.append([any_token(draw, index, alternatives) for _ in range(count)])
        told[-1].append(finished(index, FinishReason.LENGTH, text=draw.choice(["", "END"]), tokens=count))
    turns = draw.sample([i for i, events in enumerate(told) for _ in events], sum(map(len, told)))
    return [told[i].pop(0) for i in turns]


def any_token(draw: random.Random, index: int, alternatives: int | None) -> Token:
    text = draw.choice(["a", "", "é🙂", '"\\', "\ud83d", "\n\0"])
    if alternatives is None:
        return Token(index, draw.randrange(256), text)
    top = tuple((draw.randrange(256), -draw.random()) for _ in range(alternatives))
    return Token(index, draw.randrange(256), text, TokenLogprobs(-draw.random(), top))


CHATS = [
    chat(n=n, return_token_ids=ids, logprobs=top is not None, top_logprobs=top)
    for n, ids, top in itertools.product([1, 3], [False, True], [None, 0, 3])
]
TEXTS = [
    completion(prompt=prompt, n=n, return_token_ids=ids, logprobs=top, echo=echo)
    for prompt, n, ids, (top, echo) in itertools.product(
        ["hi", ["a", "bé"]], [1, 3], [False, True], [(None, False), (None, True), (0, False), (3, False)]
    )
]


@pytest.mark.parametrize("parsed", [*CHATS, *TEXTS])
def test_a_whole_answer_says_what_it_said_in_one_piece(parsed: ParsedRequest) -> None:
    draw = random.Random(parsed.options.choices)
    for _ in range(10):
        events = said(draw, parsed.options.choices, parsed.request.sampling.logprobs)
        answer = ResponseBuilder(parsed.options, parsed.format, PAGE)
        for event in events:
            answer.add(event)
        data = b"".join(iter_json(answer.result()))
        expected = in_one_piece(parsed, events)
        assert json.loads(data) == json.loads(json.dumps(expected))
        assert list(json.loads(data)["choices"][0]) == list(expected["choices"][0]), "and in the same order"


def test_its_length_is_that_of_what_it_holds() -> None:
    parsed = chat(logprobs=True, top_logprobs=20, return_token_ids=True, n=2)
    answer = ResponseBuilder(parsed.options, parsed.format, PAGE)
    for event in said(random.Random(1), 2, 20):
        answer.add(event)
    data = b"".join(iter_json(answer.result()))
    assert 0 <= len(data) - len(answer) < 1500, "all but the frame"


# --- how they are made and sent ---------------------------------------------------------------------------------------


class Turns:
    """Counts how often another task had its turn."""

    def __init__(self) -> None:
        self.count = 0

    async def run(self) -> None:
        while True:
            self.count += 1
            await trio.lowlevel.checkpoint()


class Watched(Exchange):
    """A client whose reading costs no turns; `turns` are those that another task had before each write."""

    turns: Turns
    before: list[int]
    sizes: list[int]

    async def app_sends(self, message: Any) -> None:  # noqa: ANN401
        self.before.append(self.turns.count)
        self.sizes.append(len(message.get("body", b"")))
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        elif message["body"]:
            self._from_app.send_nowait(message["body"])


def take_turns(counts: list[int]) -> bool:
    """Whether the other task ran between the writes; in which order two tasks have one turn each, Trio draws by lot."""
    return all(later > earlier for earlier, later in zip(counts, counts[2:], strict=False))


def watched() -> type[Watched]:
    class Mine(Watched):
        turns = Turns()
        before: list[int] = []  # noqa: RUF012
        sizes: list[int] = []  # noqa: RUF012

    return Mine


def bulky(count: int, index: int = 0, alternatives: int = 20) -> list[Event]:
    draw = random.Random(index)
    tokens: list[Event] = [any_token(draw, index, alternatives) for _ in range(count)]
    return [*tokens, finished(index, tokens=count)]


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


async def fetch(engine: FakeEngine, path: str, body: Json) -> tuple[Any, type[Watched]]:
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
            return [SlotStatus(n, SlotState.IDLE, None, 0, 5, 4) for n in range(3000)]

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


# --- what waits to be read --------------------------------------------------------------------------------------------


class Slow(Exchange):
    """Takes the head, and then a write whenever it is told to."""

    def __init__(self, path: str, state: dict[str, Any], headers: dict[str, str]) -> None:
        super().__init__(path, state, headers)
        self.may_read = trio.Semaphore(0)

    async def app_sends(self, message: Any) -> None:  # noqa: ANN401
        if message["type"] == "http.response.body":
            await self.may_read.acquire()
        await super().app_sends(message)


async def test_an_answer_counts_until_it_was_taken(autojump_clock: Any) -> None:  # noqa: ANN401
    engine = FakeEngine(bulky(100))
    async with posting(create_app(as_engine(engine)), TEXT, {"prompt": "hi", "logprobs": 20}, exchange=Slow) as client:
        await trio.sleep(1)
        assert isinstance(client, Slow)
        assert engine.live == {}
        unread, page = engine.unread.statistics().bytes, Limits().write_bytes
        assert unread == int(client.headers["content-length"])
        for taken in (1, 2):
            client.may_read.release()
            await trio.sleep(1)
            assert engine.unread.statistics().bytes == unread - taken * page
        client.disconnect()
    assert engine.unread.statistics().bytes == 0


async def test_an_answer_that_grows_too_large_is_an_error_while_it_is_generated() -> None:
    async def more_and_more(request: FakeRequest) -> None:
        while len(told) < 200 and not request.cancels:
            told.append(bulky(1)[0])
            request.emit(told[-1])
            await trio.lowlevel.checkpoint()
        request.emit(finished())

    told: list[Event] = []
    engine = FakeEngine(more_and_more)
    engine.unread = Unread(each=50_000)
    response = await create_app(as_engine(engine)).test_client().post(TEXT, json={"prompt": "hi", "logprobs": 20})
    assert response.status_code == 400
    assert (await response.get_json())["error"]["code"] == "answer_too_large"
    assert (await engine.next_request()).cancels[0] is CancelReason.STALLED_READER, "the first one counts"
    assert len(told) < 120, "it was cancelled while it was generated"
    assert (engine.unread.statistics().bytes, engine.unread.statistics().cut) == (0, 1)


async def test_a_reader_that_is_cut_while_it_is_sent_to_gets_no_more(
    autojump_clock: Any,  # noqa: ANN401
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is told by the length that was announced; the neighbour has its whole answer."""
    engine = FakeEngine(bulky(200))
    engine.unread = Unread(budget=150_000)
    app, body = create_app(as_engine(engine)), {"prompt": "hi", "logprobs": 20}
    async with posting(app, TEXT, body, exchange=Slow) as slow:
        await trio.sleep(1)
        assert isinstance(slow, Slow)
        assert 75_000 < int(slow.headers["content-length"]) < 150_000
        answer = await (await app.test_client().post(TEXT, json=body)).get_json()
        assert len(answer["choices"][0]["logprobs"]["tokens"]) == 200
        slow.may_read.release()
        slow.may_read.release()
        assert len(await slow.receive_all()) == Limits().write_bytes
    assert "a response was given up: More than 146.5 KiB of answers wait to be read" in caplog.text
    assert (engine.unread.statistics().bytes, engine.unread.statistics().cut) == (0, 1)


async def answering(request: FakeRequest) -> None:
    request.emit(*bulky(100))


async def failing(request: FakeRequest) -> None:
    request.emit(*bulky(100)[:-1])
    await trio.testing.wait_all_tasks_blocked()
    request.emit(Failed(0, StepFailed("broken")))


@pytest.mark.parametrize("script", [answering, failing])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("each", [None, 20_000, 70_000])
async def test_nothing_of_an_answer_waits_for_the_garbage_collector(
    script: Any,  # noqa: ANN401
    stream: bool,
    each: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sent, failed or cut (while it is generated, or made), it is freed by the last reference to it."""
    made: list[weakref.ref[PageBuffer]] = []
    create = PageBuffer.__init__

    def watch(self: PageBuffer, size: int) -> None:
        made.append(weakref.ref(self))
        create(self, size)

    monkeypatch.setattr(PageBuffer, "__init__", watch)
    engine = FakeEngine(script)
    engine.model.context_length = 30_000
    engine.unread = Unread(each=each)
    gc.collect()
    gc.disable()
    try:
        body = {"prompt": [7] * 20_000, "logprobs": 20, "return_token_ids": True, "stream": stream}
        async with posting(create_app(as_engine(engine)), TEXT, body) as connection:
            await connection.receive_all()
        del connection
        assert made
        assert sum(len(pages) for ref in made if (pages := ref()) is not None) == 0
    finally:
        gc.enable()
