"""A text edited by an instruction, over an engine that says what it is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.core.receipts import CancelReason
from runtime.errors import RequestError
from tests.fakes.engine import FakeEngine, model, posting, say
from tests.unit.web.apps import make
from tests.unit.web.bounds import unbounded
from tests.unit.web.openapi.documents import check, document_of, items_of, schema_of
from web.apis.openai.completions.edits import EditBody, parse_edit

PATH = "/v1/edits"
BODY: dict[str, Any] = {"instruction": "Shout.", "input": "hi"}


def test_the_instruction_stands_before_the_text() -> None:
    def prompt(**fields: str) -> bytes:
        (ids,) = parse_edit(json.dumps(fields).encode(), model()).request.prompts
        return bytes(token for token in ids if token < 256)

    assert b"Shout.\n\nhi" in prompt(**BODY)
    assert b"Shout.\n" not in prompt(instruction="Shout.")


async def test_answers_fit_what_the_document_says() -> None:
    document, client = await document_of(), make(FakeEngine(say("Hel", "lo"))).test_client()
    whole = await (await client.post(PATH, json=BODY)).get_json()
    check(schema_of(document, "post", PATH, 200), whole)
    assert whole["choices"][0]["text"] == "Hello"
    response = await client.post(PATH, json=BODY | {"stream": True})
    pieces = items_of(await response.get_data(as_text=False))
    for piece in pieces:
        check(schema_of(document, "post", PATH, 200, "text/event-stream"), piece)
    assert "".join(piece["choices"][0]["text"] for piece in pieces) == "Hello"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_hang_up_cancels_the_request(stream: bool) -> None:
    engine = FakeEngine()
    async with posting(make(engine), PATH, BODY | {"stream": stream}) as connection:
        request = await engine.next_request()
        connection.disconnect()
        await request.left.wait()
    assert request.hung_up is CancelReason.DISCONNECT


def test_what_is_wrong_is_named() -> None:
    for fields, param in (({}, "instruction"), ({"instruction": "a", "input": 5}, "input")):
        with pytest.raises(RequestError) as refused:
            parse_edit(json.dumps(fields).encode(), model())
        assert (refused.value.status, refused.value.param) == (400, param)
    assert unbounded(EditBody.model_json_schema()) == []
