"""Conversations over HTTP: what is kept in them, what responses add to them, and who may do so when."""

from __future__ import annotations

import json
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
import trio
from openai.types.conversations import (
    Conversation,
    ConversationDeletedResource,
    ConversationItem,
    ConversationItemList,
)
from openai.types.responses import Response as OpenAIResponse
from pydantic import TypeAdapter

from actors.core.generation import Failed, FinishReason
from actors.core.receipts import CancelReason
from runtime.errors import StepFailed
from tests.fakes.engine import FakeEngine, as_engine, finished, posting, say, token
from tests.unit.web.apis.responses.asking import CONTEXT, PATH, Json, check_stream, read_events, serving
from tests.unit.web.apps import error_in, make
from tests.unit.web.openapi.documents import check, document_of, schema_of
from web.apis.responses.stored.state import State, open_state
from web.process.options import StateOptions
from web.serving.app import create_app
from web.storage.objects import Kind, encoded

if TYPE_CHECKING:
    from quart.typing import TestClientProtocol

CONVERSATIONS = "/v1/conversations"
ITEM: TypeAdapter[Any] = TypeAdapter(ConversationItem)


async def post(client: TestClientProtocol, path: str, body: Json, status: int = 200) -> Json:
    response = await client.post(path, json=body)
    assert response.status_code == status, await response.get_data()
    answered: Json = await response.get_json()
    return answered


async def begin(client: TestClientProtocol, *texts: str) -> str:
    """The path of a new conversation in which a user said this."""
    items = [{"role": "user", "content": text} for text in texts]
    return f"{CONVERSATIONS}/{(await post(client, CONVERSATIONS, {'items': items}))['id']}"


def id_in(path: str) -> str:
    return path.rpartition("/")[2]


async def said(client: TestClientProtocol, path: str) -> list[str]:
    """The texts of a conversation, each item held against OpenAI's models."""
    response = await client.get(f"{path}/items?order=asc&limit=100")
    page = await response.get_json()
    for item in page["data"]:
        ITEM.validate_python(item, strict=True)
    return [item["content"][0]["text"] for item in page["data"]]


async def test_a_conversation_is_made_changed_and_deleted() -> None:
    document = await document_of()
    one = f"{CONVERSATIONS}/{{conversation_id}}"
    async with serving() as (client, _):
        made = await post(client, CONVERSATIONS, {"metadata": {"topic": "a"}})
        Conversation.model_validate(made, strict=True)
        check(schema_of(document, "post", CONVERSATIONS, 200), made)
        path = f"{CONVERSATIONS}/{made['id']}"
        assert await (await client.get(path)).get_json() == made
        changed = await post(client, path, {"metadata": {"topic": "b"}})
        assert changed == made | {"metadata": {"topic": "b"}}
        assert (await post(client, path, {"metadata": None}))["metadata"] == {}
        gone = await (await client.delete(path)).get_json()
        ConversationDeletedResource.model_validate(gone, strict=True)
        check(schema_of(document, "delete", one, 200), gone)
        item = {"items": [{"role": "user", "content": "a"}]}
        for refused in (
            await client.get(path),
            await client.delete(path),
            await client.post(path, json={"metadata": {}}),
            await client.get(f"{path}/items"),
            await client.post(f"{path}/items", json=item),
            await client.get(f"{path}/items/msg_1"),
            await client.delete(f"{path}/items/msg_1"),
            await client.post(PATH, json={"input": "hi", "conversation": made["id"]}),
            await client.post(f"{PATH}/input_tokens", json={"input": "hi", "conversation": made["id"]}),
        ):
            assert (await error_in(refused, 404))["code"] == "conversation_not_found"


async def test_items_are_added_listed_and_taken_away() -> None:
    document = await document_of()
    one = f"{CONVERSATIONS}/{{conversation_id}}/items"
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": "ok"}
    thought = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
    async with serving() as (client, _):
        path = await begin(client, "a", "b")
        added = await post(client, f"{path}/items", {"items": [call, result, thought]})
        ConversationItemList.model_validate(added, strict=True)
        check(schema_of(document, "post", one, 200), added)
        assert [item["type"] for item in added["data"]] == ["function_call", "function_call_output", "reasoning"]
        page = await (await client.get(f"{path}/items?limit=4")).get_json()
        ConversationItemList.model_validate(page, strict=True)
        check(schema_of(document, "get", one, 200), page)
        assert page["data"][:3] == added["data"][::-1]  # the newest first
        assert page["has_more"]
        rest = await (await client.get(f"{path}/items?after={page['last_id']}")).get_json()
        assert [item["content"][0]["text"] for item in rest["data"]] == ["a"]
        first = rest["data"][0]
        assert await (await client.get(f"{path}/items/{first['id']}")).get_json() == first
        left = await (await client.delete(f"{path}/items/{first['id']}")).get_json()
        Conversation.model_validate(left, strict=True)
        for refused in (await client.get(f"{path}/items/{first['id']}"), await client.delete(f"{path}/items/x")):
            assert (await error_in(refused, 404))["code"] == "item_not_found"
        items = (await (await client.get(f"{path}/items?order=asc")).get_json())["data"]
        assert [item["type"] for item in items] == ["message", "function_call", "function_call_output", "reasoning"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"items": [{"role": "user", "content": "a"}] * 21}, "items"),
        ({"items": [{"type": "web_search_call", "id": "ws_1"}]}, "items.0.type"),
        ({"items": [{"type": "item_reference", "id": "msg_1"}]}, "items.0.type"),
        ({"items": [{"role": "user", "content": [{"type": "input_image"}]}]}, "items.0.content.0.type"),
        ({"items": [{"role": "user", "content": "a", "id": "x"}] * 2}, "input"),
    ],
)
async def test_what_no_response_could_be_made_from_is_not_added(body: Json, param: str) -> None:
    async with serving() as (client, _):
        path = await begin(client, "a")
        assert (await post(client, f"{path}/items", body, 400))["error"]["param"] == param
        assert await said(client, path) == ["a"]
        if param:
            assert (await post(client, CONVERSATIONS, body, 400))["error"]["param"] == param


@pytest.mark.parametrize("fields", [{}, {"stream": True}, {"background": True}, {"store": False}])
async def test_a_response_begins_from_a_conversation_and_adds_to_it(fields: Json) -> None:
    engine = FakeEngine(say("Hel", "lo"))
    async with serving(engine) as (client, state):
        path = await begin(client, "a")
        body = {"input": "b", "conversation": id_in(path)} | fields
        counted = await post(client, f"{PATH}/input_tokens", {"input": "b", "conversation": id_in(path)})
        response = await client.post(PATH, json=body)
        assert response.status_code == 200
        if "stream" in fields:
            made = check_stream(read_events(await response.get_data(as_text=False)))
        else:
            made = await response.get_json()
        request = await engine.next_request()
        if "background" in fields:
            run = state.runs.find(made["id"], None)
            assert run is not None
            await run.ended.wait()
            made = await (await client.get(f"{PATH}/{made['id']}")).get_json()
        OpenAIResponse.model_validate(made)
        assert made["conversation"] == {"id": id_in(path)}
        assert bytes(request.asked.prompts[0]) == b"<user>a</user><user>b</user><assistant>"
        assert counted["input_tokens"] == len(request.asked.prompts[0])
        assert await said(client, path) == ["a", "b", "Hello"]
        key = Kind.CONVERSATION, id_in(path), None
        stored = await state.conversations.store.item(*key, made["output"][0]["id"])
        assert json.loads(stored.body) == made["output"][0]
        await post(client, PATH, {"input": "c", "conversation": {"id": id_in(path)}})
        prompt = bytes((await engine.next_request()).asked.prompts[0])
        assert prompt == b"<user>a</user><user>b</user><assistant>Hello</assistant><user>c</user><assistant>"
        assert await said(client, path) == ["a", "b", "Hello", "c", "Hello"]


async def test_it_excludes_a_response_before_and_items_that_are_there() -> None:
    async with serving() as (client, _):
        path = await begin(client)
        made = await post(client, PATH, {"input": "a", "conversation": id_in(path)})
        both = {"input": "b", "conversation": id_in(path), "previous_response_id": made["id"]}
        for where in (PATH, f"{PATH}/input_tokens"):
            assert (await post(client, where, both, 400))["error"]["code"] == "mutually_exclusive_parameters"
        again = {"input": made["output"], "conversation": id_in(path)}
        assert (await post(client, PATH, again, 400))["error"]["code"] == "duplicate_item"
        wrong = {"input": "b", "conversation": 5}
        assert "the id of a conversation" in (await post(client, PATH, wrong, 400))["error"]["message"]
        assert await said(client, path) == ["a", "Hello"]  # and it is free again
        await post(client, PATH, {"input": "c", "conversation": id_in(path)})


async def test_one_that_ends_early_by_its_limit_is_added_and_others_are_not() -> None:
    cut = finished(reason=FinishReason.CANCELLED)
    endings: list[tuple[list[Any], list[str], str]] = [
        ([token("a"), finished(reason=FinishReason.LENGTH)], ["x", "a"], "incomplete"),
        ([token("a"), cut], [], "cancelled"),
        ([token("a"), Failed(0, StepFailed("no"))], [], "failed"),
    ]
    for events, added, status in endings:
        async with serving(FakeEngine(events)) as (client, _):
            path = await begin(client)
            response = await client.post(PATH, json={"input": "x", "conversation": id_in(path), "stream": True})
            made = check_stream(read_events(await response.get_data(as_text=False)))
            assert made["status"] == status
            assert made["conversation"] == ({"id": id_in(path)} if added else None)
            assert await said(client, path) == added


async def test_one_item_of_a_long_conversation_is_found_without_the_others() -> None:
    """Whatever is done with one of 40 items of 0.1 MB, a few of them are in memory, and never all."""
    size = 100_000
    async with serving() as (client, _):
        path = await begin(client)
        for number in range(40):
            await post(
                client, f"{path}/items", {"items": [{"role": "user", "id": f"i{number}", "content": "x" * size}]}
            )
        tracemalloc.start()
        try:
            for asked in (
                client.get(f"{path}/items?limit=1&after=i20"),
                client.get(f"{path}/items/i20"),
                client.post(f"{path}/items", json={"items": [{"role": "user", "content": "y"}]}),
                client.delete(f"{path}/items/i20"),
                client.get(path),
                client.delete(path),
            ):
                tracemalloc.reset_peak()
                before, _ = tracemalloc.get_traced_memory()
                assert (await asked).status_code == 200
                assert tracemalloc.get_traced_memory()[1] - before < 8 * size
        finally:
            tracemalloc.stop()


async def test_of_a_conversation_that_is_too_long_no_more_is_read_than_could_fit() -> None:
    """Its end is gone on with where the client asks for that."""
    async with serving() as (client, state):
        path = await begin(client)
        for number in range(20):
            long = {"type": "message", "role": "user", "content": "x" * 1_000_000, "id": f"i{number}"}
            await state.conversations.add(id_in(path), None, await encoded([long]))
        await post(client, f"{path}/items", {"items": [{"role": "user", "content": "the end"}]})
        asked = {"input": "b", "conversation": id_in(path)}
        tracemalloc.start()
        try:
            refused = await post(client, PATH, asked, 400)
            await post(client, PATH, asked | {"truncation": "auto"})
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert refused["error"]["code"] == "context_length_exceeded"
        assert peak < 20_000_000, "a part of it"
        page = await (await client.get(f"{path}/items?limit=3")).get_json()
        assert [item["content"][0]["text"] for item in page["data"]] == ["Hello", "b", "the end"]


# --- one at a time ------------------------------------------------------------------------------------------------


async def opened(engine: FakeEngine, state: State) -> tuple[Any, TestClientProtocol]:
    app = create_app(as_engine(engine), state=state)
    return app, app.test_client()


@pytest.mark.parametrize("stream", [True, False])
async def test_of_one_whose_client_hangs_up_nothing_is_added_and_the_next_may_begin(stream: bool) -> None:
    engine = FakeEngine()
    engine.model.context_length = CONTEXT
    async with open_state(as_engine(engine), StateOptions()) as state:
        app, client = await opened(engine, state)
        path = await begin(client, "a")
        asked = {"input": "b", "conversation": id_in(path), "stream": stream}
        async with posting(app, PATH, asked) as leaving:
            request = await engine.next_request()
            request.emit(token("x"))
            if stream:
                await leaving.receive()
            locked = await post(client, PATH, asked | {"stream": False}, 400)
            leaving.disconnect()
            await request.left.wait()
        assert (locked["error"]["code"], locked["error"]["param"]) == ("conversation_locked", "conversation")
        assert request.hung_up is CancelReason.DISCONNECT
        assert await said(client, path) == ["a"]
        assert engine.openings == 1
        async with posting(app, PATH, asked):
            (await engine.next_request()).emit(*say("y"))
        assert await said(client, path) == ["a", "b", "y"]


@pytest.mark.parametrize("background", [True, False])
async def test_while_a_response_is_made_nobody_else_changes_its_conversation(background: bool) -> None:
    engine = FakeEngine()
    engine.model.context_length = CONTEXT
    async with open_state(as_engine(engine), StateOptions()) as state:
        app, client = await opened(engine, state)
        path = await begin(client, "a")
        (item,) = (await (await client.get(f"{path}/items")).get_json())["data"]
        asked = {"input": "b", "conversation": id_in(path), "background": background}
        async with posting(app, PATH, asked) as made:
            request = await engine.next_request()
            if background:
                await made.receive_all()  # its client has its answer, and the conversation is held nevertheless
            more = {"items": [{"role": "user", "content": "c"}]}
            for refused in (
                await client.post(PATH, json={"input": "c", "conversation": id_in(path)}),
                await client.post(f"{path}/items", json=more),
                await client.delete(f"{path}/items/{item['id']}"),
            ):
                assert (await error_in(refused, 400))["code"] == "conversation_locked"
            assert await said(client, path) == ["a"]  # which all may read
            await post(client, path, {"metadata": {"k": "v"}})
            request.emit(*say("x"))
            await request.left.wait()
        await post(client, f"{path}/items", more) if not background else None
        while background and len(await said(client, path)) < 3:
            await trio.testing.wait_all_tasks_blocked()
        assert (await said(client, path))[:3] == ["a", "b", "x"]
        assert (await (await client.get(path)).get_json())["metadata"] == {"k": "v"}


async def test_one_that_is_deleted_while_a_response_streams_stays_deleted() -> None:
    engine = FakeEngine()
    engine.model.context_length = CONTEXT
    async with open_state(as_engine(engine), StateOptions()) as state:
        app, client = await opened(engine, state)
        path = await begin(client, "a")
        async with posting(app, PATH, {"input": "b", "conversation": id_in(path), "stream": True}) as reading:
            request = await engine.next_request()
            request.emit(token("x"))
            begun = await reading.receive()
            assert (await client.delete(path)).status_code == 200
            request.emit(finished())
            made = check_stream(read_events(begun + await reading.receive_all()))
        assert (made["status"], made["conversation"]) == ("completed", None)
        assert (await client.get(path)).status_code == 404


async def test_a_server_that_stores_nothing_has_none() -> None:
    client = make().test_client()
    assert (await post(client, CONVERSATIONS, {}, 400))["error"]["code"] == "unsupported_endpoint"
    assert (await client.get(f"{CONVERSATIONS}/conv_1")).status_code == 404
    assert (await post(client, PATH, {"input": "x", "conversation": "conv_1"}, 404))["error"]["param"] == "conversation"


async def test_what_is_not_compacted_says_so() -> None:
    refused = await post(make().test_client(), f"{PATH}/compact", {"input": "x"}, 400)
    assert refused["error"]["code"] == "unsupported_endpoint"
    assert "compact" in refused["error"]["message"]
