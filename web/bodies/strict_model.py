"""The base of all schemas of request bodies, and what is done with fields that a schema does not have."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import PydanticCustomError, from_json

from runtime.errors import RequestError
from web.bodies.json_size import check_json_size
from web.bodies.validation_errors import request_error
from web.process.limits import MAX_NAME, MAX_UNKNOWN_FIELDS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pydantic import GetJsonSchemaHandler
    from pydantic_core import CoreSchema

ModelT = TypeVar("ModelT", bound="StrictModel")


class StrictModel(BaseModel):
    """A part of a body: JSON types are exact, NaN is refused, and unknown fields are kept in `model_extra`."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True, allow_inf_nan=False)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the JSON schema, in which a field stands under each of its names; pydantic writes the first alone."""
        reference = handler(core_schema)
        properties = handler.resolve_ref_schema(reference).get("properties", {})
        for first, *others in cls.other_names():
            properties |= {name: properties[first] | {"description": f"As `{first}`."} for name in others}
        return reference

    @model_validator(mode="after")
    def _check_unknown_fields(self) -> Self:
        unknown = self.model_extra or {}
        if len(unknown) > MAX_UNKNOWN_FIELDS:
            raise PydanticCustomError("unknown_fields", "")
        if any(len(name) > MAX_NAME for name in unknown):
            raise PydanticCustomError("unknown_name", "")
        return self

    @classmethod
    @cache  # of what a class is made of; a large one has sixty fields
    def other_names(cls) -> list[list[str]]:
        """Return the names of each field that has several; pydantic takes the first that a body has, and no other."""
        aliases = [field.validation_alias for field in cls.model_fields.values()]
        return [list(map(str, alias.choices)) for alias in aliases if isinstance(alias, AliasChoices)]


def parse_model(
    schema: type[ModelT],
    raw: bytes,
    unsupported: Mapping[str, tuple[object, ...]] = MappingProxyType({}),
    context_length: int = 0,
) -> ModelT:
    """Validate the JSON text `raw`, if it holds no more values than a request can need.

    Args:
        schema: of the body.
        raw: the body.
        unsupported: as `refuse_unsupported` takes it.
        context_length: tokens of the model's context; a body may hold so many numbers beside the other values.

    Raises:
        RequestError: it is too large, does not fit the schema, or asks for what cede does not do; the message tells the
            first fault in one sentence.
    """
    check_json_size(raw, context_length)
    try:
        body = schema.model_validate_json(raw)
        _check_names(schema, raw)
    except ValidationError as error:
        raise request_error(error) from None
    refuse_unsupported(body, unsupported)
    return body


def known_fields(model: StrictModel) -> dict[str, Any]:
    """Return the fields of the schema, which are validated; `dict(model)` has the unknown ones beside them."""
    return {name: getattr(model, name) for name in type(model).model_fields}


def unknown_fields(model: StrictModel, *known: Collection[str]) -> list[str]:
    """Return the names of the fields that mean nothing to cede, in alphabetical order.

    Args:
        model: the validated part of a body.
        known: fields that the schema does not have, and that are no surprise: hints, and what is refused.
    """
    return sorted((model.model_extra or {}).keys() - set().union(*known))


def refuse_unsupported(model: StrictModel, unsupported: Mapping[str, tuple[object, ...]], path: str = "") -> None:
    """Refuse fields that ask for what cede does not do: no client shall believe that it got what it did not.

    Args:
        model: the validated part of a body.
        unsupported: for each such field the values that ask for nothing; null always does.
        path: where the part is in the body, such as `messages.0.`.

    Raises:
        RequestError: a field has another value.
    """
    for name, value in (model.model_extra or {}).items():
        if name in unsupported and value is not None and value not in unsupported[name]:
            raise RequestError(
                f"'{path}{name}' is not supported by this server.",
                param=path + name,
                code="unsupported_parameter",
            )


def show_unsupported(schema: dict[str, Any], unsupported: Mapping[str, tuple[object, ...]]) -> None:
    """Add the fields that `refuse_unsupported` refuses to a JSON schema, with the values that it lets pass.

    Args:
        schema: to be changed; a field that it has stays as it is.
        unsupported: as `refuse_unsupported` takes it.
    """
    for name, neutral in unsupported.items():
        said = {"description": "Not implemented: other values are refused.", "enum": [*neutral, None]}
        schema["properties"].setdefault(name, said)


def _check_names(schema: type[StrictModel], raw: bytes) -> None:
    """Raise ValidationError if a valid body has two names of one field, of which only one would count.

    Versions of pydantic differ in what they make of the others, so this looks at the text, where there are several.
    """
    for names in schema.other_names():
        if sum(f'"{name}"'.encode() in raw for name in names) < 2:
            continue
        body = from_json(raw)
        _, *others = [name for name in names if name in body] or [""]
        if ignored := [name for name in others if body[name] is not None]:
            fault = PydanticCustomError("two_names", "", {"name": ignored[0]})
            raise ValidationError.from_exception_data(schema.__name__, [{"type": fault, "loc": (), "input": None}])
