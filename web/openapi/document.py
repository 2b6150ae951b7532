"""The OpenAPI document (https://spec.openapis.org/oas/v3.1.1.html) of the operations that all APIs declare."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from web.openapi.operations import JSON
from web.openapi.schemas import SchemaNames
from web.process.version import cede_version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from web.openapi.operations import Api, Json, Operation, Parameter, Reply, Type

ABOUT = (
    "Unknown optional fields are ignored.  What would change the output and is not implemented is refused by name.  "
    "Null stands for a field that is not given.  Each path also answers HEAD where it answers GET, and OPTIONS."
)

ERRORS = {
    400: "The request cannot be served as it is written.",
    401: "The server has API keys, and none of them was sent.",
    403: "A web page of another origin asks, or the server does not go by the name that it was asked for.",
    404: "There is nothing of that name.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The body's media type is one that JSON never has, or it is compressed otherwise than by gzip.",
    429: "Slots and queue are full, or the API key has reached one of its limits.",
    500: "The server failed; its log says why.",
    501: "The served model cannot do this.",
    503: "The server cannot do this now.",
    504: "The request's deadline passed before its first token.",
    529: "The server cannot do this now, or slots and queue are full.",
}

RETRY_AFTER: Json = {
    "Retry-After": {"description": "Seconds after which to try again.", "schema": {"type": "string"}},
}
HEADERS: dict[int, Json] = {
    401: {"WWW-Authenticate": {"description": "The scheme that is asked for.", "schema": {"type": "string"}}},
    429: RETRY_AFTER,
    503: RETRY_AFTER,
    529: RETRY_AFTER,
}

SCHEMES: Json = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "`Authorization: Bearer KEY`."},
    "x-api-key": {
        "type": "apiKey",
        "in": "header",
        "name": "x-api-key",
        "description": "As Anthropic's clients send it.",
    },
}


def openapi_document(apis: Sequence[Api], *, keyed: bool) -> Json:
    """Return the document.

    Its order is fixed: paths and schemas are sorted, and fields stand in the order of their types.

    Args:
        apis: all that are served.
        keyed: whether the server has keys, one of which a client has to have.
    """
    paths: dict[str, Json] = {}
    components: Json = {}
    for api in apis:
        names = _schema_names(api)
        components |= names.components
        for operation in api.operations:
            paths.setdefault(operation.path, {})[operation.method] = _operation(api, operation, names)
    keys: list[Json] = [{name: []} for name in SCHEMES]
    return {
        "openapi": "3.1.0",
        "info": {"title": "cede", "version": cede_version(), "description": ABOUT},
        "tags": [{"name": api.name, "description": api.about} for api in apis],
        "security": keys if keyed else [{}, *keys],
        "paths": {path: dict(sorted(methods.items())) for path, methods in sorted(paths.items())},
        "components": {"schemas": dict(sorted(components.items())), "securitySchemes": SCHEMES},
    }


def _schema_names(api: Api) -> SchemaNames:
    bodies = [operation.body for operation in api.operations if operation.body is not None]
    answers: list[Type] = [api.error]
    for operation in api.operations:
        for reply in operation.replies.values():
            answers += [type_ for type_ in reply.content.values() if type_ is not None]
    return SchemaNames(api.name, bodies, answers)


def _operation(api: Api, operation: Operation, names: SchemaNames) -> Json:
    written: Json = {"operationId": operation.name, "summary": operation.summary, "tags": [api.name]}
    if operation.open:
        written["security"] = []
    if operation.endless:
        written["x-endless"] = True
    if parameters := _parameters(operation):
        written["parameters"] = parameters
    if operation.body is not None:
        content: Json = {"schema": names.body(operation.body)}
        if operation.example is not None:
            content["examples"] = {"usual": {"value": operation.example}}
        written["requestBody"] = {"required": True, "content": {JSON: content}}
    replies = {status: _reply(reply, status, names) for status, reply in operation.replies.items()}
    for status in operation.errors - operation.replies.keys() - ({401} if operation.open else set()):
        replies[status] = {"description": ERRORS[status], "content": {JSON: {"schema": names.answer(api.error)}}}
        if status in HEADERS:
            replies[status]["headers"] = HEADERS[status]
    return written | {"responses": {str(status): replies[status] for status in sorted(replies)}}


def _parameters(operation: Operation) -> list[Json]:
    said = {(parameter.place, parameter.name): parameter for parameter in operation.parameters}
    in_path = {("path", name) for name in re.findall(r"\{(\w+)\}", operation.path)}
    written = [_parameter(parameter) for parameter in said.values()]
    bare = sorted(in_path - said.keys())
    written += [{"name": name, "in": place, "required": True, "schema": {"type": "string"}} for place, name in bare]
    return written


def _parameter(parameter: Parameter) -> Json:
    style = {"style": "deepObject", "explode": True} if parameter.deep else {}
    return style | {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.place == "path",
        "description": parameter.about,
        "schema": parameter.schema,
    }


def _reply(reply: Reply, status: int, names: SchemaNames) -> Json:
    written: Json = {"description": reply.about or ERRORS.get(status, "The answer.")}
    if reply.content:
        written["content"] = _content(reply.content, names)
    return written


def _content(content: Mapping[str, Type | None], names: SchemaNames) -> Json:
    """Return the schemas by media type.  OpenAPI 3.1 knows none of a sequence's items, so those are an extension."""
    written: Json = {}
    for media_type, type_ in content.items():
        if media_type == JSON:
            written[media_type] = {"schema": {"type": "object"} if type_ is None else names.answer(type_)}
        else:
            item = {} if type_ is None else {"x-item-schema": names.answer(type_)}
            written[media_type] = {"schema": {"type": "string"}} | item
    return written
