"""Requests that Schemathesis draws from an OpenAPI document: such as fit it, and such as do not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from jsonschema import Draft202012Validator
from schemathesis import GenerationMode
from schemathesis.core.parameters import ParameterLocation
from schemathesis.core.result import Ok

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.strategies import SearchStrategy
    from schemathesis import Case

    from tests.live.server import Json


JSON = "application/json"


def draw_cases(document: Json, examples: int) -> list[Case[Any]]:
    """Return up to so many different requests of each operation and kind, the same ones each time."""
    schema = schemathesis.openapi.from_dict(document | {"paths": finite(document)})
    operations = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
    return [case for operation in operations for case in (*_given(operation, document), *_drawn(operation, examples))]


def finite(document: Json) -> Json:
    """Return the paths whose answers come to an end by themselves."""
    return {path: of for path, of in document["paths"].items() if not of.get("get", {}).get("x-endless")}


def fits(case: Case[Any], document: Json) -> bool:
    """Return whether a case of which only the body should break the document does not."""
    assert case.meta is not None, "drawn cases say what they should break"
    if [place for place, part in case.meta.components.items() if part.mode.is_negative] != [ParameterLocation.BODY]:
        return False
    body = document["paths"][case.operation.path][case.operation.method]["requestBody"]["content"][JSON]["schema"]
    return bool(Draft202012Validator(body | {"components": document["components"]}).is_valid(case.body))


def _given(operation: Any, document: Json) -> Iterator[Case[Any]]:  # noqa: ANN401  schemathesis does not name its type
    """Yield the examples of the document."""
    body = document["paths"][operation.path][operation.method].get("requestBody")
    if body is not None:
        named = {name: "x" for name in re.findall(r"\{(\w+)\}", operation.path)}
        for example in body["content"][JSON]["examples"].values():
            yield operation.Case(path_parameters=named, body=example["value"], media_type=JSON)


def _drawn(operation: Any, examples: int) -> Iterator[Case[Any]]:  # noqa: ANN401
    for mode in GenerationMode:
        try:
            yield from _draw(operation.as_strategy(generation_mode=mode), examples)
        except Unsatisfiable:
            assert mode is GenerationMode.NEGATIVE, operation.path  # what takes nothing cannot be asked wrongly


def _draw(strategy: SearchStrategy[Case[Any]], examples: int) -> list[Case[Any]]:
    found: dict[str, Case[Any]] = {}

    @settings(
        derandomize=True,
        max_examples=examples,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )
    @given(strategy)
    def collect(case: Case[Any]) -> None:
        found[repr((case.path_parameters, case.query, case.headers, case.body))] = case

    collect()
    return list(found.values())
