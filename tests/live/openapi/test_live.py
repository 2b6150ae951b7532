"""Drawn requests against a real server: what it answers is what the document says, and it stands as before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.fork_server import ForkedServer
from tests.live.openapi.drawn import FLAGS, Outcome, ask, check
from tests.live.server import Server

EXAMPLES = 4  # of each operation and kind; `python -m tests.live.openapi` draws more


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    forked = ForkedServer(tmp_path, *FLAGS)
    try:
        yield forked
    finally:
        forked.end()


def test_drawn_requests_are_answered_as_the_document_says(server: Server) -> None:
    check(server, ask(server, EXAMPLES))


def test_an_answer_that_is_not_declared_is_noticed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    document = server.get("/openapi.json")
    document["paths"] = {"/v1/receipts": document["paths"]["/v1/receipts"]}
    del document["paths"]["/v1/receipts"]["get"]["responses"]["400"]
    monkeypatch.setattr(server, "get", lambda path: document)
    outcome: Outcome = ask(server, EXAMPLES)
    assert any("UndefinedStatusCode" in fault for fault in outcome.faults), outcome
