"""The routes, over HTTP with a scripted engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio
from openai.types.responses import Response as OpenAIResponse

from actors.core.generation import Failed, FinishReason
from actors.core.receipts import CancelReason
from runtime.errors import QueueFull, StepFailed
from tests.fakes.engine import FakeEngine, FakeRequest, as_engine, finished, posting, say, token
from tests.unit.web.apis.responses.asking import PATH, Json, check_stream, read_events, rebuilt, serving
from tests.unit.web.apps import error_in, make
from tests.unit.web.openapi.documents import check, document_of, schema_of
from web.serving.app import create_app

if TYPE_CHECKING:
    from quart.typing import TestClientProtocol


async def create(client: TestClientProtocol, **fields: Any) -> Json:  # noqa: ANN401
    """The response to a body with these fields, beside an input unless given."""
    response = await client.post(PATH, json={"input": "hi"} | fields)
    assert response.status_code == 200, await response.get_data()
    body: Json = await response.get_json()
    return body


async def get(client: TestClientProtocol, path: str) -> Json:
    response = await client.get(f"{PATH}/{path}")
    assert response.status_code == 200, await response.get_data()
    body: Json = await response.get_json()
    return body


async def events_of(client: TestClientProtocol, path: str) -> list[Json]:
    response = await client.get(f"{PATH}/{path}")
    assert response.status_code == 200
    return read_events(await response.get_data(as_text=False))


async def test_a_response_is_answered_stored_and_deleted() -> None:
    async with serving() as (client, _):
        made = await create(client)
        OpenAIResponse.model_validate(made)
        assert await get(client, made["id"]) == made
        deleted = await (await client.delete(f"{PATH}/{made['id']}")).get_json()
        assert deleted == {"id": made["id"], "object": "response", "deleted": True}
        for request in (client.get, client.delete):
            error = await error_in(await request(f"{PATH}/{made['id']}"), 404)
            assert error["code"] == "response_not_found"


async def test_what_is_not_to_be_stored_is_not() -> None:
    async with serving() as (client, _):
        made = await create(client, store=False)
        assert made["store"] is False
        await error_in(await client.get(f"{PATH}/{made['id']}"), 404)
        error = await error_in(await client.post(PATH, json={"input": "x", "previous_response_id": made["id"]}), 400)
        assert error["code"] == "previous_response_not_found"


async def test_a_stream_is_stored_before_its_last_event() -> None:
    async with serving() as (client, _):
        response = await client.post(PATH, json={"input": "hi", "stream": True})
        assert response.headers["content-type"].startswith("text/event-stream")
        events = read_events(await response.get_data(as_text=False))
        made = check_stream(events)
        assert rebuilt(events) == made["output"]
        stored = await get(client, made["id"])
        assert stored == made


async def test_a_response_goes_on_with_those_before() -> None:
    engine = FakeEngine(say("Hel", "lo"))
    async with serving(engine) as (client, _):
        first = await create(client, input="a", instructions="only once")
        second = await create(client, input="b", previous_response_id=first["id"])
        third = await create(client, input="c", previous_response_id=second["id"])
        prompts = [bytes((await engine.next_request()).asked.prompts[0]) for _ in range(3)]
        before = b"<user>a</user><assistant>Hello</assistant><user>b</user><assistant>Hello</assistant>"
        assert prompts[2] == before + b"<user>c</user><assistant>"
        listed = await get(client, f"{third['id']}/input_items?order=asc&limit=100")
        assert [item["content"][0]["text"] for item in listed["data"]] == ["a", "Hello", "b", "Hello", "c"]
        await client.delete(f"{PATH}/{first['id']}")
        refused = await client.post(PATH, json={"input": "d", "previous_response_id": third["id"]})
        assert (await error_in(refused, 400))["param"] == "previous_response_id"


async def test_items_are_listed_in_pages() -> None:
    async with serving() as (client, _):
        made = await create(client, input=[{"role": "user", "content": str(number)} for number in range(5)])
        path, seen, after = f"{made['id']}/input_items?limit=2", [], ""
        while True:
            page = await get(client, path + after)
            seen += [item["content"][0]["text"] for item in page["data"]]
            if not page["has_more"]:
                break
            after = f"&after={page['last_id']}"
        assert seen == ["4", "3", "2", "1", "0"]
        for wrong in ("limit=0", "limit=101", "limit=x", "limit=", "order=up", "after=nothing"):
            error = await error_in(await client.get(f"{PATH}/{made['id']}/input_items?{wrong}"), 400)
            assert error["param"] == wrong.partition("=")[0]


async def test_an_item_is_referred_to_by_its_id() -> None:
    engine = FakeEngine(say("Hello"))
    async with serving(engine) as (client, _):
        made = await create(client, input=[{"role": "user", "content": "a"}])
        (item,) = (await get(client, f"{made['id']}/input_items"))["data"]
        references = [{"type": "item_reference", "id": item["id"]}, {"id": made["output"][0]["id"]}]
        await create(client, input=references)
        await engine.next_request()
        asked = (await engine.next_request()).asked
        assert bytes(asked.prompts[0]) == b"<user>a</user><assistant>Hello</assistant><assistant>"
        for wrong in ("msg_1", made["output"][0]["id"] + "9"):
            refused = await client.post(PATH, json={"input": [{"type": "item_reference", "id": wrong}]})
            assert (await error_in(refused, 400))["code"] == "item_not_found"


async def test_tokens_are_counted() -> None:
    async with serving() as (client, _):
        made = await create(client, input="a")
        body = {"input": "b", "previous_response_id": made["id"]}
        counted = await (await client.post(f"{PATH}/input_tokens", json=body)).get_json()
        prompt = "<user>a</user><assistant>Hello</assistant><user>b</user><assistant>"
        assert counted == {"object": "response.input_tokens", "input_tokens": len(prompt)}


async def test_a_full_queue_is_a_503_here() -> None:
    engine = FakeEngine()
    engine.refusal = QueueFull("full", retry_after=1.0)
    async with serving(engine) as (client, _):
        for more in ({}, {"stream": True}, {"background": True}):
            response = await client.post(PATH, json={"input": "hi"} | more)
            assert (await error_in(response, 503))["code"] == "queue_full"
            assert response.headers["retry-after"] == "1"


async def test_a_failure_is_a_status_or_the_last_event() -> None:
    async with serving(FakeEngine([token("a"), Failed(0, StepFailed("no"))])) as (client, _):
        await error_in(await client.post(PATH, json={"input": "hi"}), 500)
        response = await client.post(PATH, json={"input": "hi", "stream": True})
        assert check_stream(read_events(await response.get_data(as_text=False)))["status"] == "failed"


async def test_a_hang_up_cancels_and_stores_nothing() -> None:
    engine = FakeEngine([token("a")])
    async with serving(engine) as (_, state):
        app = create_app(as_engine(engine), state=state)
        for stream in (True, False):
            async with posting(app, PATH, {"input": "hi", "stream": stream}) as connection:
                request = await engine.next_request()
                connection.disconnect()
                await request.left.wait()
            assert request.hung_up is CancelReason.DISCONNECT
            await error_in(await app.test_client().get(f"{PATH}/{request.id}"), 404)


async def test_without_a_store_nothing_refers_to_anything() -> None:
    client = make().test_client()
    assert (await create(client))["store"] is False
    for fields in ({"store": True}, {"background": True, "store": True}, {"previous_response_id": "resp_1"}):
        await error_in(await client.post(PATH, json={"input": "hi"} | fields), 400)
    await error_in(await client.get(f"{PATH}/resp_1"), 404)


# --- in the background ------------------------------------------------------------------------------------------------


async def test_a_response_in_the_background_is_found_followed_and_not_cancelled_by_who_leaves() -> None:
    go = trio.Event()

    async def script(request: FakeRequest) -> None:
        request.emit(token("Hel"))
        await go.wait()
        request.emit(token("lo"), finished(tokens=2))

    engine = FakeEngine(script)
    async with serving(engine) as (client, state):
        made = await create(client, background=True)
        assert (made["status"], made["background"]) == ("in_progress", True)
        assert (await get(client, made["id"]))["status"] == "in_progress"
        refused = await client.post(PATH, json={"input": "x", "previous_response_id": made["id"]})
        assert (await error_in(refused, 400))["code"] == "previous_response_not_found"
        app = create_app(as_engine(engine), state=state)
        async with posting(app, PATH, {"input": "hi", "background": True, "stream": True}) as connection:
            await connection.receive()
            connection.disconnect()
        (first, second) = [await engine.next_request() for _ in range(2)]
        assert not first.cancels
        assert not second.cancels
        go.set()
        for request in (first, second):
            events = await events_of(client, f"{request.id}?stream=true")
            response = check_stream(events)
            assert rebuilt(events) == response["output"]
            assert response["output"][0]["content"][0]["text"] == "Hello"
            rest = await events_of(client, f"{request.id}?stream=true&starting_after=4")
            assert rest == events[5:]
            assert (await get(client, request.id))["status"] == "completed"


async def test_a_response_in_the_background_is_cancelled_by_its_id() -> None:
    engine = FakeEngine([token("a")])
    async with serving(engine) as (client, _):
        made = await create(client, background=True)
        request = await engine.next_request()
        for _ in range(2):  # the second finds it cancelled
            response = await client.post(f"{PATH}/{made['id']}/cancel")
            assert (await response.get_json())["status"] == "cancelled"
        assert request.cancels == [CancelReason.OPERATOR]
        assert (await get(client, made["id"]))["output"][0]["content"][0]["text"] == "a"
        other = await create(client, background=True)
        await client.delete(f"{PATH}/{other['id']}")
        await error_in(await client.get(f"{PATH}/{other['id']}"), 404)
        await error_in(await client.get(f"{PATH}/{other['id']}?stream=true"), 404)


async def test_what_did_not_run_in_the_background_is_neither_cancelled_nor_followed() -> None:
    async with serving() as (client, _):
        made = await create(client)
        await error_in(await client.post(f"{PATH}/{made['id']}/cancel"), 400)
        error = await error_in(await client.get(f"{PATH}/{made['id']}?stream=true"), 400)
        assert error["code"] == "stream_expired"
        for wrong in ("stream=maybe", "stream=true&starting_after=x", "stream=true&starting_after=-2"):
            await error_in(await client.get(f"{PATH}/{made['id']}?{wrong}"), 400)


# --- what the OpenAPI document says -----------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", list(FinishReason))
async def test_answers_fit_the_document(reason: FinishReason) -> None:
    document = await document_of()
    one = f"{PATH}/{{response_id}}"
    async with serving(FakeEngine([token("Hel"), finished(reason=reason)])) as (client, _):
        made = await create(client, background=True, input=[{"role": "user", "content": "hi"}])
        check(schema_of(document, "post", PATH, 200), made)
        schema = schema_of(document, "get", one, 200, "text/event-stream")
        for event in await events_of(client, f"{made['id']}?stream=true"):
            check(schema, event)
        check(schema_of(document, "get", one, 200), await get(client, made["id"]))
        items = await get(client, f"{made['id']}/input_items")
        check(schema_of(document, "get", f"{one}/input_items", 200), items)
        response = await client.post(f"{PATH}/{made['id']}/cancel")
        check(schema_of(document, "post", f"{one}/cancel", 200), await response.get_json())
        response = await client.delete(f"{PATH}/{made['id']}")
        check(schema_of(document, "delete", one, 200), await response.get_json())
        response = await client.post(f"{PATH}/input_tokens", json={"input": "hi"})
        check(schema_of(document, "post", f"{PATH}/input_tokens", 200), await response.get_json())


async def test_a_field_that_means_nothing_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as (client, _):
        with caplog.at_level("INFO", "cede.web"):
            await create(client, whatever=1)
            await create(client, whatever=2)
    assert sum("whatever" in message for message in caplog.messages) == 1
