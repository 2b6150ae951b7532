"""The base of all schemas of request bodies, and what is done with fields that a schema does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from runtime.errors import RequestError
from web.bodies.validation_errors import request_error
from web.limits import MAX_NAME, MAX_UNKNOWN_FIELDS

if TYPE_CHECKING:
    from collections.abc import Mapping

ModelT = TypeVar("ModelT", bound="StrictModel")


class StrictModel(BaseModel):
    """A part of a body: JSON types are exact, NaN is refused, and unknown fields are kept in `model_extra`."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True, allow_inf_nan=False)

    @model_validator(mode="after")
    def _check_unknown_fields(self) -> Self:
        unknown = self.model_extra or {}
        if len(unknown) > MAX_UNKNOWN_FIELDS:
            raise PydanticCustomError("unknown_fields", "")
        if any(len(name) > MAX_NAME for name in unknown):
            raise PydanticCustomError("unknown_name", "")
        return self


def parse_model(schema: type[ModelT], raw: bytes) -> ModelT:
    """Validate the JSON text `raw`.

    Raises:
        RequestError: it does not fit the schema; the message tells the first fault in one sentence.
    """
    try:
        return schema.model_validate_json(raw)
    except ValidationError as error:
        raise request_error(error) from None


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
