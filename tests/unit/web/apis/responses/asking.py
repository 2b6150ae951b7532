"""Responses that are asked for, and their events, for the tests in this folder."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.fakes.engine import FakeEngine, as_engine, model, say
from web.apis.responses.conversion import History, prepare, read_body
from web.apis.responses.stored.state import State, open_state
from web.bodies.json_encoding import iter_json
from web.process.options import StateOptions
from web.serving.app import create_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from quart.typing import TestClientProtocol

    from web.apis.responses.output.envelope import ResponseOptions
    from web.generation.asked import Asked

Json = dict[str, Any]

PATH = "/v1/responses"
CONTEXT = 4096

STRICT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
LAST = ("response.completed", "response.incomplete", "response.failed")


def ask(**fields: Any) -> Asked[ResponseOptions]:  # noqa: ANN401
    """The request of a body with these fields, beside an input unless given."""
    served = model(context_length=CONTEXT)
    return prepare(read_body(json.dumps({"input": "hi"} | fields).encode(), served), History(), served)


def as_json(value: object) -> Json:
    """A value that has parts which encode themselves, as a client reads it."""
    read: Json = json.loads(b"".join(iter_json(value)))
    return read


def read_events(data: bytes) -> list[Json]:
    """The events of a stream, each of which says its type twice."""
    events = []
    assert data.endswith(b"\n\n")
    for text in data.decode().removesuffix("\n\n").split("\n\n"):
        if text.startswith(": "):
            continue
        if text.startswith("id: "):  # of one that may outlive its client
            number, _, text = text.partition("\n")
            kind, _, body = text.partition("\n")
            assert json.loads(body.removeprefix("data: "))["sequence_number"] == int(number.removeprefix("id: "))
        kind, _, body = text.partition("\n")
        event = json.loads(body.removeprefix("data: "))
        assert kind == f"event: {event['type']}"
        events.append(event)
    return events


def check_stream(events: list[Json], start: int = 0) -> Json:
    """Hold a whole stream against OpenAI's models and against itself, and return the response that it ends with."""
    for event in events:
        STRICT.validate_python(event, strict=True)
    assert [event["sequence_number"] for event in events] == list(range(start, start + len(events)))
    assert [event["type"] in LAST for event in events] == [False] * (len(events) - 1) + [True]
    response: Json = events[-1]["response"]
    Response.model_validate(response)
    return response


def rebuilt(events: Iterable[Json]) -> list[Json]:
    """The output as a client builds it from the deltas alone, held against each event that repeats it."""
    items: list[Json] = []
    texts: dict[str, str] = {}
    done: list[Json] = []
    for event in events:
        match event["type"]:
            case "response.output_item.added":
                assert event["output_index"] == len(items)
                items.append(event["item"])
                texts[event["item"]["id"]] = ""
            case kind if kind.endswith(".delta"):
                assert event["item_id"] == items[-1]["id"]
                assert event["output_index"] == len(items) - 1
                assert event["delta"]
                texts[event["item_id"]] += event["delta"]
            case "response.content_part.done":
                assert event["part"]["text"] == texts[event["item_id"]]
            case kind if kind.endswith(".done") and "item_id" in event:
                (whole,) = (event[name] for name in ("text", "arguments", "input") if name in event)
                assert whole == texts[event["item_id"]]
            case "response.output_item.done":
                assert event["item"]["id"] == items[-1]["id"]
                assert len(done) == event["output_index"]
                done.append(event["item"])
    return done


@asynccontextmanager
async def serving(
    engine: FakeEngine | None = None,
    **options: Any,  # noqa: ANN401
) -> AsyncIterator[tuple[TestClientProtocol, State]]:
    """A client of an application that stores responses."""
    engine = engine or FakeEngine(say("Hel", "lo"))
    engine.model.context_length = CONTEXT
    async with open_state(as_engine(engine), StateOptions(**options)) as state:
        yield create_app(as_engine(engine), state=state).test_client(), state
