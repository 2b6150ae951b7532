"""The answer of `POST /v1/embeddings`."""

from __future__ import annotations

import sys
from array import array
from base64 import b64encode
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from runtime.step.prompt_rows.wanted import Pooling
from web.bodies.json_encoding import LazyJsonArray, SelfEncoding
from web.bodies.json_types import Long

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


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
