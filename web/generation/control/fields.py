"""The fields of `cede: {…}` in a body, and of the headers `x-cede-…`; and the object `cede` of an answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from pydantic import ConfigDict, Field, ValidationError
from typing_extensions import TypedDict

from actors.control import NO_CONTROL, Control, OnDisconnect
from runtime.errors import RequestError
from web.bodies.fields import Name
from web.bodies.strict_model import StrictModel
from web.bodies.validation_errors import dotted, request_error
from web.openapi.operations import Parameter
from web.process.limits import MAX_INTEGER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.core.generation import Finished, GenerationRequest
    from web.openapi.operations import Json

PREFIX = "x-cede-"

GivenName = Annotated[Name, Field(min_length=1)]
GroupName = Annotated[Name, Field(min_length=1, pattern="^[^/]+(/[^/]+)*$")]
"""A path, of which no part is empty."""
Seconds = Annotated[float, Field(ge=0, le=MAX_INTEGER)]


class ControlFields(StrictModel):
    """Control of a request over its own fate.  Unlike in other objects, a field that is not known is refused."""

    model_config = ConfigDict(extra="forbid")

    on_disconnect: OnDisconnect | None = None
    group: GroupName | None = None
    first_wins: bool | None = None
    supersede: GivenName | None = None
    after: GivenName | None = None
    grace_s: Seconds | None = None
    keep_s: Seconds | None = None
    warm: bool | None = None


def control_of(fields: ControlFields | None, over: Control = NO_CONTROL) -> Control:
    """Return what the fields say, and for those that are not given what `over` says."""
    given = {} if fields is None else {name: value for name, value in fields if value is not None}
    return replace(over, **given) if given else over


def with_headers(control: Control, headers: Iterable[tuple[str, str]]) -> Control:
    """Return what the headers `x-cede-…` say, and for those that are not given what `control`, the body's, says.

    Args:
        control: of the body.
        headers: of the request, all of them.

    Raises:
        RequestError: one is not known, or has a wrong value; `param` is the header's name.
    """
    lower = ((name.lower(), value) for name, value in headers)
    given = {field_name(name): value.strip() for name, value in lower if name.startswith(PREFIX)}
    if not given:
        return control
    try:
        fields = ControlFields.model_validate_strings(given)
    except ValidationError as error:
        raise request_error(error, lambda location: header_name(dotted(location))) from None
    return control_of(fields, control)


def checked(request: GenerationRequest) -> GenerationRequest:
    """Return a request, of which a warm one generates nothing.

    Raises:
        RequestError: it is warm, and wants more than its prompt to be read, or is to wait for somebody.
    """
    if not request.control.warm:
        return request
    if request.max_tokens:
        raise RequestError("'cede.warm' reads a prompt and no more: 'max_tokens' must be 0.", param="cede.warm")
    if request.control.after is not None:
        raise RequestError("'cede.warm' waits for nobody: it cannot go with 'cede.after'.", param="cede.after")
    return replace(request, max_tokens=0)


def header_name(field: str) -> str:
    """Return the name of the header that stands for a field."""
    return PREFIX + field.replace("_", "-")


def field_name(header: str) -> str:
    """Return the name of the field that a header stands for."""
    return header.removeprefix(PREFIX).replace("-", "_")


def _headers() -> tuple[Parameter, ...]:
    schema = ControlFields.model_json_schema()
    return tuple(
        Parameter(header_name(name), f"As `cede.{name}` in the body, and before it.", _without_null(field), "header")
        for name, field in schema["properties"].items()
    )


def _without_null(field: Json) -> Json:
    (value,) = (choice for choice in field["anyOf"] if choice != {"type": "null"})
    return dict(value)


CONTROL_HEADERS = _headers()
"""The parameters of an operation that generates."""


class CancelNote(TypedDict, total=False):
    """Facts about an answer that the API has no word for.

    Attributes:
        cancelled: why the answer was cut short, as in its receipt.
        warmed_tokens: of a warm request: how many tokens of the prompt a request that comes next finds read.
    """

    cancelled: str
    warmed_tokens: int


class Noted(TypedDict, total=False):
    """The field that notes them, where there are any."""

    cede: CancelNote


def cancel_note(finished: Finished) -> Noted:
    """Return the field `cede` of what ends an answer; nothing where there is nothing to tell."""
    note: CancelNote = {}
    if finished.cancelled is not None:
        note["cancelled"] = finished.cancelled.value
    if finished.warmed_tokens is not None:
        note["warmed_tokens"] = finished.warmed_tokens
    return {"cede": note} if note else {}
