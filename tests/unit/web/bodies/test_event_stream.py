"""Streams whose events come one by one, and whose last event shows nothing by itself."""

from __future__ import annotations

import json

import pytest
from trio.testing import wait_all_tasks_blocked

from tests.fakes.engine import FakeEngine, finished, posting, token
from tests.unit.web.apps import make

HI = [{"role": "user", "content": "hi"}]
APIS = {
    "/api/chat": {"model": "any", "messages": HI},
    "/api/generate": {"model": "any", "prompt": "hi"},
    "/v1/chat/completions": {"messages": HI, "stream": True},
    "/v1/completions": {"prompt": "hi", "stream": True},
    "/v1/messages": {"model": "any", "messages": HI, "max_tokens": 9, "stream": True},
    "/v1/responses": {"model": "any", "input": "hi", "stream": True},
}


@pytest.mark.parametrize("path", APIS)
async def test_a_last_event_that_shows_nothing_ends_the_stream_in_good_order(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    engine = FakeEngine()
    async with posting(make(engine), path, APIS[path]) as exchange:
        request = await engine.next_request()
        await wait_all_tasks_blocked()
        request.emit(token("a"))
        await wait_all_tasks_blocked()  # the stream waits for what comes next
        request.emit(finished(tokens=1))
        answer = (await exchange.receive_all()).decode()
    assert exchange.status == 200
    assert json.dumps("error") not in answer.replace('"error":null', "")
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
