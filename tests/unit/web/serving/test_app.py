"""Routes, whole answers, statistics and the log, through Quart's test client."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from actors.core.receipts import CancelReason
from tests.fakes.engine import FakeEngine, finished, posting, say, token
from tests.unit.web.apps import CHAT, HI, TEXT, make
from tests.unit.web.generation.openai_format.answers.streams import cut_short
from web.bodies import body_parser as reading

# --- whole answers ----------------------------------------------------------------------------------------


async def test_a_prompt_counts_as_cached_as_far_as_all_its_choices_found_it_so() -> None:
    engine = FakeEngine([finished(0, cached=0), finished(1, cached=3)])
    answer = await (await make(engine).test_client().post(CHAT, json=HI | {"n": 2})).get_json()
    assert answer["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}


async def test_a_cancelled_answer_says_so() -> None:
    engine = FakeEngine([token("a"), cut_short(CancelReason.DEADLINE)])
    answer = await (await make(engine).test_client().post(CHAT, json=HI)).get_json()
    assert answer["choices"][0]["cede"] == {"cancelled": "deadline"}
    assert answer["choices"][0]["message"]["content"] == "a"


async def test_a_hang_up_cancels_a_whole_answer_too() -> None:
    engine = FakeEngine([token("a")])
    async with posting(make(engine), CHAT, HI) as connection:
        request = await engine.next_request()
        connection.disconnect()
        await request.left.wait()
    assert request.hung_up is CancelReason.DISCONNECT


async def test_a_long_body_is_read_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []
    run_sync = trio.to_thread.run_sync

    async def spy(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        threads.append(kwargs)
        return await run_sync(*args, **kwargs)

    monkeypatch.setattr(trio.to_thread, "run_sync", spy)
    engine = FakeEngine(say("a"))
    engine.model.context_length = 10**6
    client = make(engine).test_client()
    assert (await client.post(TEXT, json={"prompt": "x" * 100})).status_code == 200
    assert threads == []
    assert (await client.post(TEXT, json={"prompt": "x" * reading.INLINE_BODY})).status_code == 200
    assert [set(options) for options in threads] == [{"limiter"}]  # so not abandoned on cancel


# --- the rest ---------------------------------------------------------------------------------------------


async def test_each_response_is_a_line_of_the_debug_log(caplog: pytest.LogCaptureFixture) -> None:
    client = make().test_client()
    with caplog.at_level("DEBUG", "cede.web"):
        answer = await client.post(CHAT, json=HI)
    assert caplog.messages == [f"'POST {CHAT}': 200 {answer.headers['x-request-id']}"]


async def test_each_refusal_is_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    client = make().test_client()
    with caplog.at_level("INFO", "cede.web"):
        await client.post(CHAT, json=HI)
        await client.get("/two%0Alines")
        await client.post(CHAT, json=HI | {"n": 0})
    assert [record.levelname for record in caplog.records] == ["INFO", "INFO"]
    first, second = caplog.messages
    assert first == r"'GET /two\nlines': 404 'Unknown request URL: GET /two\nlines.  The API is under /v1.'"
    assert second.startswith(f"'POST {CHAT}': 400 \"Invalid 'n': ")


async def test_models() -> None:
    engine = FakeEngine()
    engine.model.name = "org/name"
    client = make(engine).test_client()
    listed = await (await client.get("/v1/models")).get_json()
    (card,) = listed["data"]
    assert (listed["object"], card["id"], card["object"], card["owned_by"]) == ("list", "org/name", "model", "cede")
    assert await (await client.get("/v1/models/org/name")).get_json() == card
