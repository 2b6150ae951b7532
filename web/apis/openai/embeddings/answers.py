"""The answer of `POST /v1/embeddings`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict


class Embedding(TypedDict):
    """The vector of one input."""

    object: Literal["embedding"]
    index: int
    embedding: Annotated[
        list[float] | str,
        Field(description="Its numbers; with `encoding_format` base64 as float32 in little-endian order, in base64."),
    ]


class EmbeddingUsage(TypedDict):
    """Usage of the inputs."""

    prompt_tokens: int
    total_tokens: int


class HowPooled(TypedDict):
    """Pooling of the vectors, for which OpenAI has no word."""

    pooling: Literal["mean", "last"]


class Embeddings(TypedDict):
    """The vectors of all inputs, in their order."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage
    cede: HowPooled
