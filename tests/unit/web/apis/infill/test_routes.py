"""The routes over an engine that says what it is told."""

from __future__ import annotations

from typing import Any

import pytest

from actors.core.receipts import CancelReason
from tests.fakes.byte_tokenizer import InfillTokenizer
from tests.fakes.engine import FakeEngine, posting, say
from tests.unit.web.apps import error_in, make
from tests.unit.web.openapi.documents import check, document_of, items_of, schema_of

GAP: dict[str, Any] = {"input_prefix": "a", "input_suffix": "b"}
FIM: dict[str, Any] = {"prompt": "a", "suffix": "b"}
ROUTES = [("/infill", GAP), ("/v1/fim/completions", FIM)]


def engine(*texts: str) -> FakeEngine:
    made = FakeEngine(say(*texts) if texts else None)
    made.model.tokenizer = InfillTokenizer()
    return made


@pytest.mark.parametrize(("path", "body"), ROUTES)
async def test_answers_fit_what_the_document_says(path: str, body: dict[str, Any]) -> None:
    document = await document_of()
    client = make(engine("Hel", "lo")).test_client()
    response = await client.post(path, json=body)
    assert response.status_code == 200
    check(schema_of(document, "post", path, 200), await response.get_json())
    response = await client.post(path, json=body | {"stream": True})
    schema = schema_of(document, "post", path, 200, "text/event-stream")
    data = await response.get_data(as_text=False)
    if path == "/infill":
        data += b"data: [DONE]\n\n"  # which llama-server does not write here
    items = items_of(data)
    assert len(items) == 3 + (path != "/infill")
    for item in items:
        check(schema, item)


async def test_mistral_s_answer_is_a_chat_s() -> None:
    client = make(engine("Hel", "lo")).test_client()
    answer = await (await client.post("/v1/fim/completions", json=FIM)).get_json()
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"]["content"] == "Hello"
    response = await client.post("/v1/fim/completions", json=FIM | {"stream": True})
    *_, last = items_of(await response.get_data(as_text=False))
    assert last["choices"][0]["finish_reason"] == "stop"
    assert last["usage"]["completion_tokens"] == 2


@pytest.mark.parametrize(("path", "body"), ROUTES)
async def test_a_model_that_cannot(path: str, body: dict[str, Any]) -> None:
    error = await error_in(await make().test_client().post(path, json=body), 400)
    assert error["code"] == "unsupported_parameter"
    assert error["param"] in body


@pytest.mark.parametrize(("path", "body"), ROUTES)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_hang_up_cancels_the_request(path: str, body: dict[str, Any], stream: bool) -> None:
    made = engine()
    async with posting(make(made), path, body | {"stream": stream}) as connection:
        request = await made.next_request()
        connection.disconnect()
        await request.left.wait()
    assert request.hung_up is CancelReason.DISCONNECT
