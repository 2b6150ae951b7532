"""Requests that Schemathesis draws from the OpenAPI document, over the application and the simulated engine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from requests import Request, Session
from schemathesis.core.transport import Response

from tests.live.openapi.cases import draw_cases
from tests.live.openapi.drawn import Outcome

if TYPE_CHECKING:
    from schemathesis import Case

    from tests.hostile.application import Application

URL = "http://localhost"


async def ask_drawn(application: Application, examples: int) -> Outcome:
    """Send up to so many requests of each operation and kind, and hold what comes back against the document."""
    outcome = Outcome(json.loads((await application.ask("GET", "/openapi.json")).body))
    for case in draw_cases(outcome.document, examples):
        outcome.judge(case, await _call(case, application))
    return outcome


async def _call(case: Case[Any], application: Application) -> Response:
    case.freeze_metadata()
    prepared = Session().prepare_request(Request(**case.as_transport_kwargs(base_url=URL)))
    body: Any = prepared.body or b""
    headers = tuple((name.lower(), _text(value)) for name, value in prepared.headers.items())
    named = tuple((name, value) for name, value in headers if name not in ("content-length", "host"))
    raw = body.encode() if isinstance(body, str) else body
    answer = await application.ask(case.method, str(prepared.url).removeprefix(URL), raw, named)
    return Response(
        status_code=answer.status,
        headers={name: [value] for name, value in answer.headers},
        content=answer.body,
        request=prepared,
        elapsed=0.0,
        verify=False,
    )


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")
