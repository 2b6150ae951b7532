"""The document of the control address, and its answers held against it."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
import trio
from jsonschema import ValidationError

from actors.core.receipts import CancelReason, Receipt
from tests.fakes.engine import FakeEngine, as_engine, completion
from tests.unit.web.cluster.control.feed.workers import TellingWorkers
from tests.unit.web.openapi.documents import check, document_of, schema_of
from web.bodies.json_encoding import dumps
from web.cluster.control.desk import Desk, FrontDoorSight
from web.cluster.control.questions import Question, asked
from web.cluster.control.routes import control_app
from web.cluster.control.succession import Succession
from web.http.asgi import ScopedApp
from web.http.browser_policy import BrowserPolicy
from web.observability.inspection.feed.feed import Feed
from web.observability.inspection.feed.frames import Frames

W = "000000000000000a"


class OneWorker(TellingWorkers):
    """A worker that answers as a real one does."""

    def __init__(self, engine: FakeEngine) -> None:
        super().__init__(W)
        self._desk = Desk(as_engine(engine), Succession())

    async def ask(
        self,
        question: Question,
        worker: str | None = None,
        **about: Any,  # noqa: ANN401
    ) -> tuple[dict[str, Any], list[str]]:
        """Answer."""
        return {W: await self._desk.answer(asked(question, about))}, []


def app_of(engine: FakeEngine) -> ScopedApp:
    """The application over one worker."""
    return control_app(OneWorker(engine), trio.Event(), BrowserPolicy())


@pytest.mark.parametrize("path", ["/v1/requests", "/v1/receipts", "/slots", "/v1/statistics", "/v1/groups"])
async def test_answers_are_as_the_document_says(path: str) -> None:
    engine = FakeEngine()
    engine.log = [Receipt("cmpl-1", 0, CancelReason.DISCONNECT, "prefill", 1.0, 1.5, 2.0, 9, 1, 8, 6, 2, 1, 4, 3)]
    app = app_of(engine)
    document = await document_of(app)
    async with AsyncExitStack() as stack:
        request = replace(completion().request, id="r")
        await stack.enter_async_context(engine.open_request(request, disconnect_reason=lambda: CancelReason.OPERATOR))
        client: Any = app.test_client()
        answer = await (await client.get(path)).get_json()
    check(schema_of(document, "get", path, 200), answer)
    (listed,) = {"/v1/groups": ([],)}.get(path) or [answer.get("data") or answer["slots"]]
    assert all(one["worker"] == W for one in listed)


async def test_ends_are_as_the_document_says() -> None:
    engine = FakeEngine()
    app = app_of(engine)
    document = await document_of(app)
    client: Any = app.test_client()
    request = replace(completion().request, id="r")
    async with engine.open_request(request, disconnect_reason=lambda: CancelReason.OPERATOR):
        ended = await (await client.delete("/v1/requests/r")).get_json()
    check(schema_of(document, "delete", "/v1/requests/{request_id}", 200), ended)
    group = await (await client.delete("/v1/groups/g")).get_json()
    check(schema_of(document, "delete", "/v1/groups/{group}", 200), group)


async def test_frames_are_as_the_document_says() -> None:
    schema = schema_of(await document_of(app_of(FakeEngine())), "get", "/v1/events", 200, "text/event-stream")
    feed = Feed(as_engine(FakeEngine()))
    with feed.watched() as viewer:
        frame = await Frames(feed, viewer, FrontDoorSight()).next(1.0)
    assert frame is not None
    told = json.loads(dumps(frame.value))
    check(schema, told | {"worker": W})
    with pytest.raises(ValidationError, match="worker"):
        check(schema, told)
