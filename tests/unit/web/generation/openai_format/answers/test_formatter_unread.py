"""Answers that are sent whole: who goes when too much is unread."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import trio
import trio.testing

from actors.core.generation import Event, Failed
from actors.core.receipts import CancelReason
from actors.generating.unread import Unread
from runtime.errors import StepFailed
from tests.fakes.engine import Exchange, FakeEngine, FakeRequest, as_engine, finished, posting
from tests.unit.web.generation.openai_format.answers.whole_answers import TEXT, bulky
from web.bodies.page_buffer import PageBuffer
from web.process.limits import Limits
from web.serving.app import create_app


class Slow(Exchange):
    """Takes the head, and then a write whenever it is told to."""

    def __init__(self, path: str, state: dict[str, Any], headers: dict[str, str]) -> None:
        super().__init__(path, state, headers)
        self.may_read = trio.Semaphore(0)

    async def app_sends(self, message: Any) -> None:  # noqa: ANN401
        """Wait until a write may be read."""
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
