"""Requests that Schemathesis draws from an OpenAPI document: such as fit it, and such as do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.strategies import SearchStrategy
    from schemathesis import Case

    from tests.live.server import Json


def draw_cases(document: Json, examples: int) -> list[Case]:
    """Return up to so many different requests of each operation and kind, the same ones each time."""
    schema = schemathesis.openapi.from_dict(document)
    return [case for result in schema.get_all_operations() for case in _cases_of(result.ok(), examples)]


def _cases_of(operation: Any, examples: int) -> Iterator[Case]:  # noqa: ANN401  schemathesis does not name its type
    for mode in GenerationMode:
        try:
            yield from _drawn(operation.as_strategy(generation_mode=mode), examples)
        except Unsatisfiable:
            assert mode is GenerationMode.NEGATIVE, operation.path  # what takes nothing cannot be asked wrongly


def _drawn(strategy: SearchStrategy[Case], examples: int) -> list[Case]:
    found: dict[str, Case] = {}

    @settings(
        derandomize=True,
        max_examples=examples,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )
    @given(strategy)
    def collect(case: Case) -> None:
        found[repr((case.path_parameters, case.query, case.headers, case.body))] = case

    collect()
    return list(found.values())
