"""The feed over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.core.receipts import CancelReason, Receipt
from tests.fakes.engine import FakeEngine, as_engine
from tests.unit.web.apps import error_in, make
from tests.unit.web.openapi.documents import check, document_of, schema_of
from web.process.access.api_keys import KeyRing
from web.process.access.key_file import read_keys
from web.serving.app import create_app

WATCH = "/v1/events?follow=false"


async def first_frame(client: Any, **headers: str) -> Any:  # noqa: ANN401
    """The JSON of the first frame."""
    response = await client.get(WATCH, headers=headers)
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    text = await response.get_data(as_text=True)
    assert text.startswith("event: snapshot\ndata: ")
    return json.loads(text.partition("data: ")[2])


async def test_the_first_frame_is_as_the_document_says() -> None:
    engine = FakeEngine()
    engine.log = [Receipt("cmpl-1", 0, CancelReason.DISCONNECT, "prefill", 1.0, 1.5, 2.0, 9, 1, 8, 6, 2, 1, 4, 3)]
    document = await document_of()
    assert document["paths"]["/v1/events"]["get"]["x-endless"] is True
    schema = schema_of(document, "get", "/v1/events", 200, "text/event-stream")
    frame = await first_frame(make(engine).test_client())
    check(schema, frame)
    assert [receipt["request_id"] for receipt in frame["receipts"]] == ["cmpl-1"]
    assert [slot["id"] for slot in frame["state"]["slots"]] == [0, 1]


@pytest.mark.parametrize("follow", ["", "1", "False"])
async def test_another_word_is_refused(follow: str) -> None:
    response = await make().test_client().get("/v1/events", query_string={"follow": follow})
    assert (await error_in(response, 400))["param"] == "follow"


async def test_it_wants_a_key_where_there_are_keys() -> None:
    app = create_app(as_engine(FakeEngine()), keys=KeyRing(read_keys(["sk-1"], None)))
    assert (await app.test_client().get(WATCH)).status_code == 401
    frame = await first_frame(app.test_client(), Authorization="Bearer sk-1")
    assert frame["state"]["slots"][0]["request_id"] is None, "it is another's"
