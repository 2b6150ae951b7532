"""Sends drawn requests to a server, and holds what comes back against its document."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import AcceptedNegativeData, FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.live.openapi.cases import draw_cases, finite, fits

if TYPE_CHECKING:
    from schemathesis import Case
    from schemathesis.core.transport import Response

    from tests.live.server import Json, Server

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
FLAGS = ("--slots", "4", "--context", "64", "--queue", "64", "--log-level", "warning")


@dataclass(slots=True)
class Outcome:
    """Counts of answers of which status each operation gave, and what was wrong with them."""

    document: Json = field(repr=False)
    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """List the answers, and then the faults."""
        counts = [f"{count:6} {name}: {status}" for (name, status), count in sorted(self.answers.items())]
        return "\n".join([*counts, *self.faults])

    def judge(self, case: Case[Any], response: Response) -> None:
        """Count an answer, and hold it against the document.

        What Schemathesis made of a body to break its schema may still be of it, by another branch of an `anyOf`; then
        it was rightly accepted.
        """
        name = f"{case.operation.method} {case.operation.path}"
        self.answers[name, response.status_code] += 1
        try:
            case.validate_response(response, checks=CHECKS)
        except FailureGroup as found:
            wrong = [
                f"{type(fault).__name__}: {str(fault)[:800]}"
                for fault in found.exceptions
                if not (isinstance(fault, AcceptedNegativeData) and fits(case, self.document))
            ]
            if wrong:
                self.faults.append(f"{name}: {', '.join(wrong)}; {_shown(case)} got {response.content[:300]!r}")

    def unused(self) -> set[str]:
        """Return the operations that never did what they do, among those that need no more than an example."""
        return {
            f"{method} {path}"
            for path, methods in finite(self.document).items()
            for method, operation in methods.items()
            if "200" in operation["responses"] and "{" not in path and not self.answers[f"{method} {path}", 200]
        } - NEEDS_MORE


def ask(server: Server, examples: int) -> Outcome:
    """Send up to so many requests of each operation and kind."""
    outcome = Outcome(server.get("/openapi.json"))
    for case in draw_cases(outcome.document, examples):
        outcome.judge(case, case.call(base_url=server.url))
    return outcome


def check(server: Server, outcome: Outcome) -> None:
    """Raise AssertionError if an answer was wrong, an operation never did what it does, or the server was harmed."""
    assert not outcome.faults, outcome
    assert not outcome.unused(), outcome
    server.wait_idle()
    statistics = server.get("/v1/statistics")
    manager = statistics["manager"]
    assert (statistics["live_requests"], manager["queued"], manager["leased"]) == (0, 0, 0), statistics
    assert manager["failed_steps"] == 0, statistics
    assert server.log() == ""


NEEDS_MORE = {"post /api/show", "post /infill"}  # than their examples: the served model's name, and other tokens


def _shown(case: Case[Any]) -> str:
    return f"body {case.body!r:.1500}, query {case.query!r:.100}"
