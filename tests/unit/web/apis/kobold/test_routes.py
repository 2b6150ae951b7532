"""KoboldAI's endpoints over an engine that says what it is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.core.generation import Failed
from actors.core.receipts import CancelReason
from runtime.errors import QueueFull, StepFailed
from tests.fakes.engine import FakeEngine, posting, say, token
from tests.unit.web.apps import make
from tests.unit.web.bounds import unbounded
from tests.unit.web.openapi.documents import check, document_of, schema_of
from web.apis.kobold.parse import GenerateBody
from web.apis.kobold.routes import GENERATE, STREAM

BODY: dict[str, Any] = {"prompt": "hi", "max_length": 9, "rep_pen": 1.5, "sampler_seed": 7, "stop_sequence": ["x"]}


def events(body: str) -> list[Any]:
    heads, data = zip(*(event.split("\n") for event in body.removesuffix("\n\n").split("\n\n")), strict=True)
    assert set(heads) == {"event: message"}
    return [json.loads(line.removeprefix("data: ")) for line in data]


async def test_answers_fit_what_the_document_says() -> None:
    document, client = await document_of(), make(FakeEngine(say("Hel", "lo"))).test_client()
    whole = await (await client.post(GENERATE, json=BODY)).get_json()
    check(schema_of(document, "post", GENERATE, 200), whole)
    assert whole["results"][0]["text"] == "Hello"
    pieces = events(await (await client.post(STREAM, json=BODY)).get_data(as_text=True))
    for piece in pieces:
        check(schema_of(document, "post", STREAM, 200, "text/event-stream"), piece)
    assert [(piece["token"], piece["finish_reason"]) for piece in pieces] == [
        ("Hel", None),
        ("lo", None),
        ("", "stop"),
    ]


async def test_the_body_reaches_the_engine() -> None:
    engine = FakeEngine(say("a"))
    await make(engine).test_client().post(GENERATE, json=BODY)
    asked = (await engine.next_request()).asked
    assert (asked.max_tokens, asked.stop.stops, asked.continues) == (9, ("x",), True)
    assert (asked.sampling.repetition_penalty, asked.sampling.seed) == (1.5, 7)


@pytest.mark.parametrize("path", [GENERATE, STREAM])
async def test_errors_have_the_shape_of_this_api(path: str) -> None:
    document, engine = await document_of(), FakeEngine([token("a"), Failed(0, StepFailed("no"))])
    client = make(engine).test_client()
    for body in ({"prompt": 5}, BODY | {"tfs": 0.5}):
        response = await client.post(path, json=body)
        assert response.status_code == 400
        check(schema_of(document, "post", path, 400), await response.get_json())
    response = await client.post(path, json=BODY)
    last = (await response.get_data(as_text=True)).strip().split("\n")[-1]
    check(schema_of(document, "post", path, 500), json.loads(last.removeprefix("data: ")))
    engine.refusal = QueueFull("full", retry_after=1.0)
    assert "detail" in await (await client.post(path, json=BODY)).get_json()


@pytest.mark.parametrize("path", [GENERATE, STREAM])
async def test_a_hang_up_cancels_the_request(path: str) -> None:
    engine = FakeEngine()
    async with posting(make(engine), path, BODY) as connection:
        request = await engine.next_request()
        connection.disconnect()
        await request.left.wait()
    assert request.hung_up is CancelReason.DISCONNECT


def test_no_field_is_without_a_bound() -> None:
    assert unbounded(GenerateBody.model_json_schema()) == []
