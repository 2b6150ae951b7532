"""The answer of `POST /v1/embeddings`, for the OpenAPI document."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from web.openapi.operations import Answer


class Embedding(Answer):
    """The vector of one input."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str = Field(
        description="Its numbers; with `encoding_format` base64 as float32 in little-endian order, in base64."
    )


class EmbeddingUsage(Answer):
    """Usage of the inputs."""

    prompt_tokens: int
    total_tokens: int


class HowPooled(Answer):
    """Pooling of the vectors, for which OpenAI has no word."""

    pooling: Literal["mean", "last"]


class Embeddings(Answer):
    """The vectors of all inputs, in their order."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage
    cede: HowPooled
