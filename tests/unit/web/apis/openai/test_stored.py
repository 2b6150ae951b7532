"""Chats that are stored, found again, listed, changed and deleted; and those of which nothing is kept."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import trio
from openai.types.chat import ChatCompletion, ChatCompletionDeleted

from actors.core.generation import Failed, FinishReason, Token
from actors.core.receipts import CancelReason
from runtime.errors import StepFailed
from runtime.sampling.tokens import TokenLogprobs
from tests.fakes.engine import FakeEngine, FakeRequest, as_engine, events_of, finished, posting, say, token
from tests.unit.web.apis.openai.kept import KEPT, KEYS, Json, answer, get, serving, stored_ids
from tests.unit.web.apps import CHAT, HI, error_in, make
from tests.unit.web.openapi.documents import check, document_of, schema_of
from web.apis.responses.stored.state import open_state
from web.process.options import StateOptions
from web.serving.app import create_app


async def test_a_chat_is_answered_stored_changed_and_deleted() -> None:
    document = await document_of()
    async with serving() as (client, _):
        made = await answer(client, metadata={"topic": "a"})
        stored = await get(client, f"/{made['id']}")
        ChatCompletion.model_validate(stored, strict=True)
        assert stored == made | {"metadata": {"topic": "a"}}
        check(schema_of(document, "get", f"{CHAT}/{{completion_id}}", 200), stored)
        response = await client.post(f"{CHAT}/{made['id']}", json={"metadata": {"mood": "b"}})
        assert await response.get_json() == made | {"metadata": {"mood": "b"}}
        assert await get(client, f"/{made['id']}") == made | {"metadata": {"mood": "b"}}
        response = await client.post(f"{CHAT}/{made['id']}", json={"metadata": None})
        assert (await response.get_json())["metadata"] == {}
        gone = await (await client.delete(f"{CHAT}/{made['id']}")).get_json()
        ChatCompletionDeleted.model_validate(gone, strict=True)
        check(schema_of(document, "delete", f"{CHAT}/{{completion_id}}", 200), gone)
        path = f"{CHAT}/{made['id']}"
        for refused in (
            await client.get(path),
            await client.delete(path),
            await client.get(f"{path}/messages"),
            await client.post(path, json={"metadata": {}}),
        ):
            assert (await error_in(refused, 404))["code"] == "completion_not_found"


@pytest.mark.parametrize("store", [None, False])
async def test_what_is_not_to_be_stored_is_not(store: bool | None) -> None:
    async with serving() as (client, state):
        await answer(client, store=store, metadata={"a": "b"})
        assert await stored_ids(state) == []


LOGPROBS = TokenLogprobs(-0.5, ((98, -0.5), (99, -1.5)))
PROBABLE = [replace(event, logprobs=LOGPROBS) if isinstance(event, Token) else event for event in say("a", "b")]


@pytest.mark.parametrize(
    ("fields", "events"),
    [
        ({}, say("Hel", "lo")),
        ({"n": 2}, [*say("a", "b"), *say("c", index=1)]),
        ({"logprobs": True, "top_logprobs": 2, "return_token_ids": True}, PROBABLE),
        ({"max_tokens": 0}, say()),
    ],
)
async def test_of_a_stream_is_stored_what_would_have_been_the_whole_answer(fields: Json, events: list[Any]) -> None:
    async with serving(FakeEngine(events)) as (client, state):
        whole = await get(client, f"/{(await answer(client, **fields))['id']}")
        response = await client.post(CHAT, json=KEPT | fields | {"stream": True})
        chunks = events_of(await response.get_data(as_text=False))
        assert chunks[-1] == "[DONE]"
        assert len(await stored_ids(state)) == 2
        stored = await get(client, f"/{chunks[0]['id']}")
        ChatCompletion.model_validate(stored, strict=True)
        assert stored | {"id": whole["id"], "created": whole["created"]} == whole


async def test_a_stream_is_stored_before_its_end_is_written() -> None:
    engine = FakeEngine()
    async with open_state(as_engine(engine), StateOptions()) as state:
        app = create_app(as_engine(engine), state=state)
        async with posting(app, CHAT, KEPT | {"stream": True}) as reading:
            request = await engine.next_request()
            request.emit(token("a"))
            assert b'"a"' in await reading.receive()
            assert await stored_ids(state) == []
            request.emit(finished())
            async for data in reading.writes:
                if b"[DONE]" in data:
                    assert await stored_ids(state) == [request.id]
                    break
            else:
                pytest.fail("no end came")


@pytest.mark.parametrize("stream", [False, True])
async def test_of_one_whose_client_hangs_up_nothing_is_kept(stream: bool) -> None:
    engine = FakeEngine()
    async with open_state(as_engine(engine), StateOptions()) as state:
        app = create_app(as_engine(engine), state=state)
        async with posting(app, CHAT, KEPT | {"stream": stream}) as leaving:
            request = await engine.next_request()
            request.emit(token("a"), token("b"))
            if stream:
                await leaving.receive()
            leaving.disconnect()
            await request.left.wait()
        assert request.hung_up is CancelReason.DISCONNECT
        assert await stored_ids(state) == []
        assert engine.unread.statistics().bytes == 0


@pytest.mark.parametrize("stream", [False, True])
async def test_one_that_fails_is_not_kept(stream: bool) -> None:
    async with serving(FakeEngine([token("a"), Failed(0, StepFailed("no"))])) as (client, state):
        await client.post(CHAT, json=KEPT | {"stream": stream})
        assert await stored_ids(state) == []


@pytest.mark.parametrize("stream", [False, True])
async def test_one_that_is_cut_short_while_its_client_reads_is_kept_as_it_was_answered(stream: bool) -> None:
    cut = replace(finished(reason=FinishReason.CANCELLED), cancelled=CancelReason.OPERATOR)
    async with serving(FakeEngine([token("a"), cut])) as (client, state):
        await (await client.post(CHAT, json=KEPT | {"stream": stream})).get_data()
        (completion_id,) = await stored_ids(state)
        (choice,) = (await get(client, f"/{completion_id}"))["choices"]
        assert (choice["finish_reason"], choice["cede"]) == ("length", {"cancelled": "operator"})
        assert choice["message"]["content"] == "a"


async def test_a_stream_whose_copy_grows_too_large_goes_on_and_is_not_kept() -> None:
    engine = FakeEngine(say(*["a" * 50] * 100))
    engine.unread = type(engine.unread)(each=3000)
    async with serving(engine) as (client, state):
        response = await client.post(CHAT, json=KEPT | {"stream": True})
        chunks = events_of(await response.get_data(as_text=False))
        assert chunks[-1] == "[DONE]"
        assert sum(chunk != "[DONE]" and "a" in chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
        assert await stored_ids(state) == []
        assert (await engine.next_request()).cancels == []


async def test_one_that_finds_no_room_is_answered_nevertheless(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(state_size=300) as (client, state):
        assert (await answer(client))["choices"][0]["message"]["content"] == "Hello"
        assert await stored_ids(state) == []
    assert "larger than --state-size" in caplog.text


async def test_the_oldest_make_room() -> None:
    async with serving(state_size=4000) as (client, state):
        made = [(await answer(client))["id"] for _ in range(6)]
        kept = await stored_ids(state)
        assert kept == made[-len(kept) :]
        assert 0 < len(kept) < 6


# --- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "metadata", [{"a": 1}, {"a" * 65: "b"}, {"a": "b" * 513}, {str(n): "" for n in range(17)}, "a", ["a"]]
)
async def test_metadata_has_openais_bounds(metadata: object) -> None:
    async with serving() as (client, state):
        made = await answer(client)
        for path in (CHAT, f"{CHAT}/{made['id']}"):
            error = await error_in(await client.post(path, json=KEPT | {"metadata": metadata}), 400)
            assert str(error["param"]).startswith("metadata")
        assert len(await stored_ids(state)) == 1
        await error_in(await client.post(f"{CHAT}/{made['id']}", json={}), 400)


async def test_a_server_that_stores_nothing_says_so() -> None:
    client = make().test_client()
    assert (await error_in(await client.post(CHAT, json=KEPT), 400))["param"] == "store"
    assert (await client.post(CHAT, json=HI | {"store": False})).status_code == 200
    assert (await (await client.get(CHAT)).get_json())["data"] == []
    for method in (client.get, client.delete):
        await error_in(await method(f"{CHAT}/chatcmpl-1"), 404)


async def test_a_key_sees_its_own_alone() -> None:
    async with serving(keyed=True) as (client, _):
        mine, others = ({"Authorization": f"Bearer {name}"} for name in KEYS)
        made = await (await client.post(CHAT, json=KEPT, headers=mine)).get_json()
        path = f"{CHAT}/{made['id']}"
        assert (await client.get(path, headers=mine)).status_code == 200
        assert [each["id"] for each in (await get(client, "", **mine))["data"]] == [made["id"]]
        assert (await get(client, "", **others))["data"] == []
        await error_in(await client.get(f"{CHAT}?after={made['id']}", headers=others), 400)
        for refused in (
            await client.get(path, headers=others),
            await client.get(f"{path}/messages", headers=others),
            await client.post(path, json={"metadata": {"a": "b"}}, headers=others),
            await client.delete(path, headers=others),
        ):
            await error_in(refused, 404)
        assert (await get(client, f"/{made['id']}", **mine))["metadata"] == {}


async def test_it_is_deleted_and_pruned_while_others_read() -> None:
    """Changes that come at the same time as others: each is whole, and what is gone stays gone."""
    async with serving(FakeEngine(say("a"))) as (client, state):
        ids = [(await answer(client))["id"] for _ in range(4)]
        async with trio.open_nursery() as nursery:
            for completion_id in ids[:2]:
                nursery.start_soon(client.delete, f"{CHAT}/{completion_id}")
            for completion_id in ids:
                path = f"{CHAT}/{completion_id}"
                nursery.start_soon(partial(client.post, path, json={"metadata": {"k": "v"}}))
                nursery.start_soon(client.get, path)
            nursery.start_soon(client.get, CHAT)
        assert await stored_ids(state) == ids[2:]
        for completion_id in ids[2:]:
            assert (await get(client, f"/{completion_id}"))["metadata"] == {"k": "v"}


async def test_the_engine_is_asked_as_ever(autojump_clock: trio.testing.MockClock) -> None:
    """What keeps a stream lets its signs of life through."""
    go = trio.Event()

    async def script(request: FakeRequest) -> None:
        await go.wait()
        request.emit(*say("a"))

    engine = FakeEngine(script)
    async with open_state(as_engine(engine), StateOptions()) as state:
        app = create_app(as_engine(engine), state=state, keep_alive=1.0)
        async with posting(app, CHAT, KEPT | {"stream": True}) as reading:
            alive = await reading.receive()
            go.set()
            rest = await reading.receive_all()
    assert [chunk["choices"][0]["delta"] for chunk in events_of(alive)] == [{}]
    assert events_of(rest)[-1] == "[DONE]"
