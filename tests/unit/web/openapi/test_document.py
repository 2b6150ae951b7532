"""The document is valid OpenAPI, has each route and nothing else, and its examples are in order."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator, ValidationError
from openapi_spec_validator import validate
from openapi_spec_validator.validation.exceptions import OpenAPIValidationError

from tests.fakes.operations import OPERATIONS
from tests.unit.web.openapi.documents import Json, document_of, make
from web.openapi.document import openapi_document
from web.openapi.operations import apis_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from werkzeug.routing import Rule

AUTOMATIC = {"HEAD", "OPTIONS"}  # methods that each route has by itself


def routes() -> set[tuple[str, str]]:
    rules: Iterator[Rule] = make().url_map.iter_rules()
    return {
        (method.lower(), re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule))
        for rule in rules
        for method in (rule.methods or set()) - AUTOMATIC
    }


def references(node: Any) -> Iterator[str]:  # noqa: ANN401
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"].rpartition("/")[2]
        for part in node.values():
            yield from references(part)
    elif isinstance(node, list):
        for part in node:
            yield from references(part)


async def test_it_is_valid_openapi() -> None:
    document = await document_of()
    validate(document)
    with pytest.raises(OpenAPIValidationError):  # so it looks at the operations
        validate(document | {"paths": {"/": {"get": {"responses": 7}}}})


def unions(node: Any) -> Iterator[list[Json]]:  # noqa: ANN401
    if isinstance(node, dict):
        if "oneOf" in node:
            yield node["oneOf"]
        for part in node.values():
            yield from unions(part)
    elif isinstance(node, list):
        for part in node:
            yield from unions(part)


async def test_a_value_of_a_known_type_is_of_one_member_of_a_union() -> None:
    """Else it would be of none: `oneOf` means exactly one."""
    document = await document_of()
    schemas = document["components"]["schemas"]
    seen = 0
    for members in unions(document):
        named = [schemas[member["$ref"].rpartition("/")[2]]["properties"] for member in members if "$ref" in member]
        for kind in [fields["type"]["const"] for fields in named if "const" in fields.get("type", {})]:
            only_type = [Draft202012Validator({"components": document["components"]} | member) for member in members]
            blind = [one for one in only_type if not any(_of_type(error) for error in one.iter_errors({"type": kind}))]
            assert len(blind) == 1, (kind, members)
            seen += 1
    assert seen > 40


def _of_type(error: ValidationError) -> bool:
    """Return whether a member does not take a value because of its type, and not because fields are missing."""
    return error.validator in ("const", "enum", "not", "type") or any(_of_type(one) for one in error.context or ())


async def test_each_route_is_in_it_and_nothing_else() -> None:
    paths = (await document_of())["paths"]
    assert {(method, path) for path, methods in paths.items() for method in methods} == routes()


async def test_two_servers_have_the_same_one() -> None:
    first, second = await document_of(), await document_of()
    assert repr(first) == repr(second)  # the order, too
    assert list(first["paths"]) == sorted(first["paths"])
    assert list(first["components"]["schemas"]) == sorted(first["components"]["schemas"])


async def test_each_schema_in_it_is_used() -> None:
    document = await document_of()
    assert set(references(document)) == document["components"]["schemas"].keys()


async def test_examples_fit_their_schemas() -> None:
    document = await document_of()
    for operation in OPERATIONS:
        if operation.body is None:
            continue
        written = document["paths"][operation.path][operation.method]["requestBody"]["content"]["application/json"]
        assert operation.example is not None, operation.path
        schema = written["schema"] | {"components": document["components"]}
        Draft202012Validator(schema).validate(written["examples"]["usual"]["value"])


@pytest.mark.parametrize("keyed", [True, False])
def test_it_says_who_needs_a_key(keyed: bool) -> None:
    document = openapi_document(apis_of(make()), keyed=keyed)
    assert ({} in document["security"]) is not keyed  # none is an alternative
    health, models = document["paths"]["/health"]["get"], document["paths"]["/v1/models"]["get"]
    assert health["security"] == []
    assert "401" not in health["responses"]
    assert "security" not in models
    assert "401" in models["responses"]


async def test_a_field_stands_under_each_of_its_names() -> None:
    properties = (await document_of())["components"]["schemas"]["OpenAIChatBody"]["properties"]
    assert properties["repeat_penalty"]["anyOf"] == properties["repetition_penalty"]["anyOf"]


async def test_what_is_refused_by_name_is_in_it_with_the_values_that_are_not() -> None:
    schemas: Json = (await document_of())["components"]["schemas"]
    assert schemas["OpenAIChatBody"]["properties"]["mirostat"]["enum"] == [0, None]
    assert "enum" not in schemas["OpenAICompletionBody"]["properties"]["echo"]  # which chats do not have
