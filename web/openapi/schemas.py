"""Pydantic's models as named JSON schemas (draft 2020-12, the dialect of OpenAPI 3.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic.json_schema import GenerateJsonSchema, models_json_schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import BaseModel
    from pydantic.json_schema import JsonSchemaMode
    from pydantic_core.core_schema import TaggedUnionSchema

    from web.openapi.operations import Json

PLACE = "#/components/schemas/"
OTHER = "<other>"
"""The tag, in a union by `type`, of the member for all types that have none of their own; those are `<type>`."""


class _Schemas(GenerateJsonSchema):
    """Pydantic's generator, without a title for each field that only repeats its name.

    Of a union by `type`, the member for types that are not known (tagged `OTHER`) excludes those that are: else a value
    of a known type would be of two members, and so of none of a `oneOf`.
    """

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401  pydantic does not name its type
        return False

    def tagged_union_schema(self, schema: TaggedUnionSchema) -> Json:
        union: Json = super().tagged_union_schema(schema)
        if OTHER in schema["choices"]:
            other = self.generate_inner(schema["choices"][OTHER])
            known = [str(tag).strip("<>") for tag in schema["choices"] if tag != OTHER]
            without = {"allOf": [other], "not": {"properties": {"type": {"enum": known}}}}
            union["oneOf"] = [without if member == other else member for member in union["oneOf"]]
        return union


class SchemaNames:
    """The schemas of one API's models, under names that no other API's models can change.

    Args:
        prefix: what the names begin with.
        bodies: the models of requests.
        answers: the models of responses.

    Attributes:
        components: the schemas by name, also those that the models consist of.
    """

    def __init__(self, prefix: str, bodies: Iterable[type[BaseModel]], answers: Iterable[type[BaseModel]]) -> None:
        wanted: dict[tuple[type[BaseModel], JsonSchemaMode], None] = {}  # each once, in their order
        wanted |= dict.fromkeys((model, "validation") for model in bodies)
        wanted |= dict.fromkeys((model, "serialization") for model in answers)
        template = f"{PLACE}{prefix}{{model}}"
        self._references, made = models_json_schema(list(wanted), ref_template=template, schema_generator=_Schemas)
        self.components = {f"{prefix}{name}": _in_brief(schema) for name, schema in made.get("$defs", {}).items()}

    def body(self, model: type[BaseModel]) -> Json:
        """Return the reference to a request's model."""
        return dict(self._references[model, "validation"])

    def answer(self, model: type[BaseModel]) -> Json:
        """Return the reference to a response's model."""
        return dict(self._references[model, "serialization"])


def _in_brief(schema: dict[str, Any]) -> Json:
    """Return a schema whose description is the first paragraph of the model's docstring."""
    if "description" not in schema:
        return schema
    return schema | {"description": " ".join(schema["description"].split("\n\n")[0].split())}
