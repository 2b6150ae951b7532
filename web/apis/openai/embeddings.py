"""Embeddings, texts as vectors: the body, what it asks for, and the answer."""

from __future__ import annotations

import sys
from array import array
from base64 import b64encode
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from runtime.step.prompt_rows.wanted import Pooling
from web.bodies.fields import Name, Priority, Prompt
from web.bodies.json_encoding import LazyJsonArray, Long, SelfEncoding
from web.bodies.prompt_tokens import split_prompts
from web.bodies.strict_model import StrictModel, parse_model, show_unsupported, unknown_fields
from web.generation.embeddings import EmbeddingRequest, check_dimensions, input_ids, pooling_of
from web.generation.passed_over import IgnoredFields
from web.process.limits import MAX_INTEGER, MAX_PROMPTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runtime.loading.served import ServedModel

UNSUPPORTED: dict[str, tuple[object, ...]] = {
    "messages": (),  # vLLM's, as the next two
    "truncate_prompt_tokens": (),
    "additional_data": (),
    "embedding_types": (["float"],),  # Cohere's
    "input_type": (),
}
"""Fields that would change a vector, with the values (beside null) that ask for nothing."""

HINTS = frozenset({"request_id", "modality"})


class EmbeddingBody(StrictModel):
    """The body of `POST /v1/embeddings`."""

    model_config = ConfigDict(json_schema_extra=lambda schema: show_unsupported(schema, UNSUPPORTED))

    input: Prompt
    model: Name | None = None
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Field(ge=1, le=MAX_INTEGER)] | None = None
    user: Name | None = None
    normalize: bool | None = None  # vLLM's
    priority: Priority | None = None  # vLLM's, too


def parse_embeddings(
    raw: bytes, model: ServedModel, max_generations: int = MAX_PROMPTS, *, ignored: IgnoredFields | None = None
) -> EmbeddingRequest:
    """Parse the body of `POST /v1/embeddings`; like a `responder.ParseFunction`.

    A batch may have more prompts than the server can hold at a time: they are read one after the other.
    """
    body = parse_model(EmbeddingBody, raw, UNSUPPORTED, model.context_length)
    pooling = pooling_of(model)
    check_dimensions(body.dimensions, model)
    prompts = input_ids(split_prompts(body.input), model, "input")
    unknown = unknown_fields(body, HINTS, UNSUPPORTED)
    (ignored or IgnoredFields()).tell("embeddings", unknown)
    tokens = sum(map(len, prompts))
    in_base64 = body.encoding_format == "base64"
    answer = partial(embeddings, name=body.model or model.name, pooling=pooling, tokens=tokens, in_base64=in_base64)
    return EmbeddingRequest(prompts, pooling, body.normalize is not False, answer, body.priority or 0)


class Embedding(TypedDict):
    """The vector of one input."""

    object: Literal["embedding"]
    index: int
    embedding: Annotated[
        Long[list[float]] | Long[str],
        Field(description="Its numbers; with `encoding_format` base64 as float32 in little-endian order, in base64."),
    ]


class EmbeddingUsage(TypedDict):
    """Usage of the inputs."""

    prompt_tokens: int
    total_tokens: int


class HowPooled(TypedDict):
    """Pooling of the vectors, for which OpenAI has no word."""

    pooling: Pooling


class Embeddings(TypedDict):
    """The vectors of all inputs, in their order."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage
    cede: HowPooled


def embeddings(
    vectors: Sequence[array[float]], *, name: str, pooling: Pooling, tokens: int, in_base64: bool
) -> Embeddings:
    """Return the answer to inputs of so many tokens together; `name` is the model, as the client used it."""
    return {
        "object": "list",
        "data": [
            {"object": "embedding", "index": index, "embedding": Base64(vector) if in_base64 else LazyJsonArray(vector)}
            for index, vector in enumerate(vectors)
        ],
        "model": name,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        "cede": {"pooling": pooling},
    }


class Base64(SelfEncoding[str]):
    """Numbers as float32 in little-endian order, in base64; encoded when their turn comes."""

    def __init__(self, vector: array[float]) -> None:
        self._vector = vector

    def iter_json(self) -> Iterator[bytes]:
        """Yield the whole string."""
        vector = self._vector
        if sys.byteorder == "big":
            vector = array("f", vector)
            vector.byteswap()
        yield b'"%s"' % b64encode(vector.tobytes())
