"""Drawn requests against a real server: what it answers is what the document says, and it stands as before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.live.fork_server import ForkedServer
from tests.live.openapi.cases import draw_cases

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLES = 12  # of each operation and kind
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
FLAGS = ("--slots", "4", "--context", "64", "--queue", "64", "--log-level", "warning")


def test_drawn_requests_are_answered_as_the_document_says(tmp_path: Path) -> None:
    server = ForkedServer(tmp_path, *FLAGS)
    try:
        answered = set()
        for case in draw_cases(server.get("/openapi.json"), EXAMPLES):
            response = case.call(base_url=server.url)
            case.validate_response(response, checks=CHECKS)
            if response.status_code == 200:
                answered.add((case.operation.method, case.operation.path))
        document = server.get("/openapi.json")
        whole = {(method, path) for path, methods in document["paths"].items() for method in methods if "{" not in path}
        assert answered >= whole  # each was asked for something that it does
        server.wait_idle()
        manager = server.get("/v1/statistics")["manager"]
        assert (manager["queued"], manager["leased"], manager["failed_steps"]) == (0, 0, 0)
        assert server.log() == ""
    finally:
        server.end()
    assert server.wait_exit() == 0
