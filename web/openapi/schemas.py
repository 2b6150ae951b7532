"""Types as named JSON schemas (draft 2020-12, the dialect of OpenAPI 3.1)."""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pydantic import BaseModel
    from pydantic.json_schema import JsonSchemaMode
    from pydantic_core.core_schema import (
        DataclassField,
        DataclassSchema,
        ModelField,
        TaggedUnionSchema,
        TypedDictField,
        TypedDictSchema,
    )

    from web.openapi.operations import Json, Type

PLACE = "#/components/schemas/"
OTHER = "<other>"
"""The tag, in a union by `type`, of the member for all types that have none of their own; those are `<type>`."""

SNAPSHOT = re.compile(r"(?<=\w)(Status|Statistics)$")
"""What the name of a frozen snapshot ends with; that of its schema does not."""

ATTRIBUTES = re.compile(r"^    (\w+(?:, \w+)*): (.+(?:\n {5,}.+)*)", re.MULTILINE)
"""Of a docstring's section: names of fields, and what is said of them."""


class _Schemas(GenerateJsonSchema):
    """Pydantic's generator, without a title for each field that only repeats its name.

    A field's description stands in its class's docstring.  Of a dataclass, which is an answer, all fields are written.

    Of a union by `type`, the member for types that are not known (tagged `OTHER`) excludes those that are: else a value
    of a known type would be of two members, and so of none of a `oneOf`.
    """

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401  pydantic does not name its type
        return False

    def normalize_name(self, name: str) -> str:
        return super().normalize_name(SNAPSHOT.sub("", name))

    def typed_dict_schema(self, schema: TypedDictSchema) -> Json:
        return _described(super().typed_dict_schema(schema), schema["cls"])

    def dataclass_schema(self, schema: DataclassSchema) -> Json:
        return _described(super().dataclass_schema(schema), schema["cls"])

    def dataclass_field_schema(self, schema: DataclassField) -> Json:
        field = schema["schema"]
        return dict(self.generate_inner(field["schema"] if field["type"] == "default" else field))

    def field_is_required(self, field: ModelField | DataclassField | TypedDictField, total: bool) -> bool:
        return field["type"] == "dataclass-field" or super().field_is_required(field, total)

    def tagged_union_schema(self, schema: TaggedUnionSchema) -> Json:
        union: Json = super().tagged_union_schema(schema)
        if OTHER in schema["choices"]:
            other = self.generate_inner(schema["choices"][OTHER])
            known = [str(tag).strip("<>") for tag in schema["choices"] if tag != OTHER]
            without = {"allOf": [other], "not": {"properties": {"type": {"enum": known}}}}
            union["oneOf"] = [without if member == other else member for member in union["oneOf"]]
        return union


class SchemaNames:
    """The schemas of one API's types, under names that no other API's types can change.

    Args:
        prefix: what the names begin with.
        bodies: the models of requests.
        answers: the types of responses.

    Attributes:
        components: the schemas by name, also those that the types consist of.
    """

    def __init__(self, prefix: str, bodies: Iterable[type[BaseModel]], answers: Iterable[Type]) -> None:
        wanted: dict[tuple[Type, JsonSchemaMode], TypeAdapter[Any]] = {}  # each once, in their order
        wanted |= {(model, "validation"): TypeAdapter(model) for model in bodies}
        wanted |= {(type_, "serialization"): TypeAdapter(type_) for type_ in answers}
        inputs = [(type_, mode, adapter) for (type_, mode), adapter in wanted.items()]
        template = f"{PLACE}{prefix}{{model}}"
        made = TypeAdapter.json_schemas(inputs, ref_template=template, schema_generator=_Schemas)
        self._references, definitions = made
        self.components = {f"{prefix}{name}": _in_brief(each) for name, each in definitions.get("$defs", {}).items()}

    def body(self, model: type[BaseModel]) -> Json:
        """Return the reference to a request's model."""
        return dict(self._references[model, "validation"])

    def answer(self, type_: Type) -> Json:
        """Return the reference to a response's type."""
        return dict(self._references[type_, "serialization"])


def _described(schema: Json, cls: type) -> Json:
    """Return the schema of a class with what its docstring says of it and of its fields."""
    for names, about in _attributes(cls):
        text = re.sub(r"\bNone\b", "null", " ".join(about.split()))
        for name in names.split(", "):
            schema["properties"][name]["description"] = text[0].upper() + text[1:]
    return schema | {"title": SNAPSHOT.sub("", cls.__name__), "description": cleandoc(cls.__doc__ or "")}


def _attributes(cls: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401  of a `TypedDict`, the bases are no types
    """Yield names of fields, and what is said of them, of the class and of those that it extends."""
    for base in getattr(cls, "__orig_bases__", getattr(cls, "__bases__", ())):
        yield from _attributes(base)
    yield from ATTRIBUTES.findall(cleandoc(cls.__doc__ or "").partition("\nAttributes:\n")[2])


def _in_brief(schema: dict[str, Any]) -> Json:
    """Return a schema whose description is the first paragraph of its type's docstring."""
    if "description" not in schema:
        return schema
    return schema | {"description": " ".join(schema["description"].split("\n\n")[0].split())}
