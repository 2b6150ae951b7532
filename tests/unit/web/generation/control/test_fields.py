"""What a request says of its own fate, in its body and in its headers, is read the same way by every API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.control import NO_CONTROL, Control
from runtime.errors import RequestError
from tests.fakes.byte_tokenizer import InfillTokenizer
from tests.fakes.engine import FakeEngine, as_engine, say
from tests.fakes.operations import OPERATIONS
from tests.rows import every_row
from web.apis.ollama.schemas import Options
from web.generation.control.fields import CONTROL_HEADERS, with_headers
from web.generation.sampling import SamplingFields
from web.serving.app import create_app

GENERATING = {
    operation.path: operation.example | {"stream": False}
    for operation in OPERATIONS
    if operation.example is not None and CONTROL_HEADERS[0] in operation.parameters
}


async def post(path: str, headers: dict[str, str] | None = None, **fields: Any) -> tuple[int, str, FakeEngine]:  # noqa: ANN401
    """Return the status and body of an answer to the example body of a route with these fields, and the engine."""
    engine = FakeEngine(say("Hel", "lo"))
    engine.model.tokenizer = InfillTokenizer()
    app = create_app(as_engine(engine))
    response = await app.test_client().post(path, json=GENERATING[path] | fields, headers=headers)
    return response.status_code, await response.get_data(as_text=True), engine


def test_every_route_that_generates_takes_it() -> None:
    assert set(GENERATING) == {
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/v1/messages",
        "/api/chat",
        "/api/generate",
        "/infill",
        "/v1/fim/completions",
    }


def test_every_body_that_generates_has_the_sampling_parameters_that_all_apis_have() -> None:
    for operation in OPERATIONS:
        if CONTROL_HEADERS[0] in operation.parameters and operation.body is not None:
            options = operation.body.model_fields.get("options")
            fields = Options.model_fields if options is not None else operation.body.model_fields
            assert SamplingFields.model_fields.keys() <= fields.keys(), operation.path


@every_row("path", GENERATING)
@every_row(
    "headers, fields, named",
    [
        ({}, {"cede": {"on_hangup": "cancel"}}, "cede.on_hangup"),
        ({}, {"cede": {"on_disconnect": "stay"}}, "cede.on_disconnect"),
        ({}, {"cede": 5}, "cede"),
        ({"X-Cede-On-Hangup": "cancel"}, {}, "x-cede-on-hangup"),
        ({"x-cede-on-disconnect": "stay"}, {"cede": {"on_disconnect": "cancel"}}, "x-cede-on-disconnect"),
    ],
)
async def test_what_is_not_understood_is_refused_by_name(
    path: str, headers: dict[str, str], fields: dict[str, Any], named: str
) -> None:
    status, body, engine = await post(path, headers, **fields)
    assert (status, engine.openings) == (400, 0)
    error = json.loads(body)["error"]  # in the shape of the API that was asked
    assert f"'{named}'" in (error if path.startswith("/api/") else error["message"])


@every_row("path", GENERATING)
async def test_what_is_understood_reaches_the_engine(path: str) -> None:
    status, _, engine = await post(path, {"X-Cede-On-Disconnect": " cancel "}, cede={"on_disconnect": None})
    assert status == 200
    assert (await engine.next_request()).asked.control == NO_CONTROL


def test_other_headers_are_none_of_it() -> None:
    assert with_headers(NO_CONTROL, [("x-ceded", "1"), ("x-cede", "1"), ("content-type", "x")]) is NO_CONTROL


@pytest.mark.parametrize("value", ["", "CANCEL", "cancel,cancel", "null"])
def test_a_headers_value_is_exact(value: str) -> None:
    with pytest.raises(RequestError, match="x-cede-on-disconnect"):
        with_headers(Control(), [("x-cede-on-disconnect", value)])
