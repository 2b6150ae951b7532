"""A route is declared once; real answers of each operation fit what it declares, and have no field that it does not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from jsonschema import ValidationError

from actors.core.generation import Failed
from actors.core.receipts import CancelReason, Receipt
from actors.diagnostics.loop_watch import LoopWatch
from runtime.errors import QueueFull, StepFailed
from runtime.sampling.tokens import TokenLogprobs
from tests.fakes.engine import FakeEngine, as_engine, finished, posting, say, token
from tests.unit.web.apps import CHAT, HI, TEXT, make
from tests.unit.web.openapi.documents import Json, check, document_of, items_of, schema_of
from web.bodies.strict_model import StrictModel
from web.http.asgi import ScopedApp
from web.openapi.operations import ANY_ROUTE, READS_BODY, Api, Operation, Parameter, Reply, operations_of
from web.serving.app import create_app

if TYPE_CHECKING:
    from quart_trio.wrappers import TrioResponse as Response

    from actors.core.generation import Event

HELLO: Json = {"prompt": "hi"}
WITH_ALL: Json = {"return_token_ids": True, "logprobs": 2}
LOGPROBS = TokenLogprobs(-0.5, ((65, -0.5), (66, -1.0)))
DETAILED: list[Event] = [token("A", logprobs=LOGPROBS), finished(text="!")]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body", "events"),
    [
        (CHAT, HI, say("Hel", "lo")),
        (CHAT, HI | WITH_ALL | {"logprobs": True, "top_logprobs": 2}, DETAILED),
        (TEXT, HELLO, say("Hel", "lo")),
        (TEXT, HELLO | WITH_ALL, DETAILED),
    ],
)
async def test_generated_answers(path: str, body: Json, events: list[Event], stream: bool) -> None:
    document = await document_of()
    asked = body | ({"stream": True, "stream_options": {"include_usage": True}} if stream else {})
    response = await make(FakeEngine(events)).test_client().post(path, json=asked)
    assert response.status_code == 200
    if not stream:
        check(schema_of(document, "post", path, 200), await response.get_json())
        return
    schema = schema_of(document, "post", path, 200, "text/event-stream")
    items = items_of(await response.get_data(as_text=False))
    assert len(items) > 2
    for item in items:
        check(schema, item)


async def test_an_error_that_breaks_a_stream_off_is_an_error_object() -> None:
    document = await document_of()
    client = make(FakeEngine([token("a"), Failed(0, StepFailed("no"))])).test_client()
    response = await client.post(CHAT, json=HI | {"stream": True})
    data = await response.get_data(as_text=False)
    *_, last = data.removesuffix(b"\n\n").split(b"\n\n")
    check(schema_of(document, "post", CHAT, 400), json.loads(last.removeprefix(b"data: ")))


async def test_refusals() -> None:
    document, engine = await document_of(), FakeEngine()
    client = make(engine).test_client()
    response = await client.post(CHAT, json=HI | {"n": 0})
    check(schema_of(document, "post", CHAT, response.status_code), await response.get_json())
    engine.refusal = QueueFull("full", retry_after=1.0)
    response = await client.post(CHAT, json=HI)
    assert response.status_code == 429
    check(schema_of(document, "post", CHAT, 429), await response.get_json())
    (declared,) = document["paths"][CHAT]["post"]["responses"]["429"]["headers"]
    assert declared in response.headers


async def test_what_looks_at_the_engine() -> None:
    document, engine = await document_of(), FakeEngine([token("a")])
    engine.log = [Receipt("cmpl-1", 0, CancelReason.DISCONNECT, "prefill", 1.0, 1.5, 2.0, 9, 1, 8, 6, 2, 1, 4, 3)]
    app = create_app(as_engine(engine), watch=LoopWatch(0.05))
    async with posting(app, CHAT, HI) as connection:
        request = await engine.next_request()
        for path in ("/health", "/slots", "/v1/requests", "/v1/receipts", "/v1/statistics", "/v1/models"):
            response = await app.test_client().get(path)
            assert response.status_code == 200
            check(schema_of(document, "get", path, 200), await response.get_json())
        response = await app.test_client().delete(f"/v1/requests/{request.id}")
        check(schema_of(document, "delete", "/v1/requests/{request_id}", 200), await response.get_json())
        connection.disconnect()
    engine.sick = "shutting down"
    response = await app.test_client().get("/health")
    check(schema_of(document, "get", "/health", 503), await response.get_json())
    response = await app.test_client().get("/v1/models/bytes")
    check(schema_of(document, "get", "/v1/models/{name}", 200), await response.get_json())


@pytest.mark.parametrize("headers", [{}, {"anthropic-version": "2023-06-01"}])
async def test_the_models_in_the_words_of_either_api(headers: dict[str, str]) -> None:
    document, client = await document_of(), make().test_client()
    shown = document["paths"]["/v1/models"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert len(document["components"]["schemas"][shown["$ref"].rpartition("/")[2]]["anyOf"]) == 2
    for path, asked, status in (
        ("/v1/models", "/v1/models", 200),
        ("/v1/models/{name}", "/v1/models/bytes", 200),
        ("/v1/models/{name}", "/v1/models/x", 404),
    ):
        response = await client.get(asked, headers=headers)
        assert response.status_code == status
        check(schema_of(document, "get", path, status), await response.get_json())


class Body(StrictModel):
    """Any body."""


def test_one_declaration_is_the_route_and_its_operation() -> None:
    app, replies, named = ScopedApp("x"), {200: Reply("Done.")}, (Parameter("name", "A name.", place="path"),)
    api = Api(app, "X", "An API.", dict)

    @api.post("/x/<path:name>", replies, {404}, body=Body, example={"a": 1}, parameters=named)
    async def make_x(name: str) -> Response:
        """Make an x.

        It is a good one.
        """
        raise NotImplementedError(name)

    (made,) = operations_of(app)
    assert made == Operation(
        method="post",
        path="/x/{name}",
        name="make_x",
        summary="Make an x",
        replies=replies,
        errors=ANY_ROUTE | READS_BODY | {404},
        body=Body,
        example={"a": 1},
        parameters=named,
    )
    (rule,) = app.url_map.iter_rules("make_x")
    assert rule.rule == "/x/<path:name>"
    assert rule.methods == {"POST", "OPTIONS"}


async def test_a_field_that_is_not_declared_is_noticed() -> None:
    schema = schema_of(await document_of(), "get", "/v1/requests", 200)
    with pytest.raises(ValidationError):
        check(schema, {"data": [], "surplus": 1})
