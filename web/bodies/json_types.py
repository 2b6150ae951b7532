"""Types of what answers are made of, for `TypedDict`s that are written and of which the OpenAPI document is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias, TypeVar, get_args

from pydantic import GetPydanticSchema

from web.bodies.json_encoding import SelfEncoding

T = TypeVar("T")

Long = Annotated[T | SelfEncoding[T], GetPydanticSchema(lambda source, handler: handler(get_args(source)[0]))]
"""A value that may be long, and so may encode itself; the document shows the value: `Long[str]`, `Long[list[int]]`."""

JsonObject: TypeAlias = Mapping[str, object]
"""Any object that is written, for whoever only hands it on: all `TypedDict`s are such."""
