"""The document of an application, and answers held against it."""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator

from tests.fakes.engine import FakeEngine, as_engine, events_of
from web.http.asgi import ScopedApp
from web.process.access.api_keys import KeyRing
from web.process.limits import Limits
from web.serving.app import create_app

Json = dict[str, Any]

ONE_PIECE = Limits(write_bytes=2**20)  # Quart's test client takes no more than ten


def make(engine: FakeEngine | None = None, keys: KeyRing | None = None) -> ScopedApp:
    """An application that sends the document, and each file, in one piece."""
    return create_app(as_engine(engine or FakeEngine()), keys=keys, limits=ONE_PIECE)


async def document_of(app: ScopedApp | None = None) -> Json:
    """Return what `GET /openapi.json` answers."""
    response = await (app or make()).test_client().get("/openapi.json")
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    document: Json = await response.get_json()
    return document


def schema_of(document: Json, method: str, path: str, status: int, media_type: str = "application/json") -> Json:
    """The schema of an answer, or of an item where it is a sequence, that can be used by itself."""
    content = document["paths"][path][method]["responses"][str(status)]["content"][media_type]
    schema: Json = content.get("x-item-schema", content["schema"])
    return schema | {"components": closed(document["components"])}


def closed(schema: Any) -> Any:  # noqa: ANN401
    """The same where no object has a field that is not declared: a client has to take those, a test has not."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {name: closed(part) for name, part in schema.items()}
    return {"additionalProperties": False} | parts if isinstance(parts.get("properties"), dict) else parts


def check(schema: Json, value: object) -> None:
    """Raise jsonschema's ValidationError if the value does not fit."""
    Draft202012Validator(schema).validate(value)


def items_of(body: bytes) -> list[Any]:
    """The JSON of a stream's events, without what ends it."""
    return [event for event in events_of(body) if event != "[DONE]"]
