"""The bodies of `POST /api/embed` and of the older `POST /api/embeddings` as what is to be computed."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from web.apis.ollama.schemas import EmbedBody, OldEmbedBody, ignored_fields, parse_body
from web.bodies.json_encoding import LazyJsonArray
from web.bodies.json_size import check_json_size
from web.generation.embeddings.batch import EmbeddingRequest
from web.generation.embeddings.inputs import check_dimensions, input_ids, pooling_of
from web.generation.ignored import IgnoredFields
from web.process.limits import MAX_PROMPTS

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

    from runtime.loading.served import ServedModel
    from web.apis.ollama.answers.models import EmbedAnswer, OldEmbedAnswer


def parse_embed(
    raw: bytes, model: ServedModel, max_generations: int = MAX_PROMPTS, *, ignored: IgnoredFields | None = None
) -> EmbeddingRequest:
    """Parse the body of `POST /api/embed`, whose vectors are normalised.

    Args:
        raw: the body.
        model: to be served from.
        max_generations: that the server can hold at a time; a batch may have more, which are read one after the other.
        ignored: tells of fields that mean nothing.

    Raises:
        RequestError: the body is not valid, or asks for more than the server or the model can do.
    """
    check_json_size(raw, model.context_length)
    body = parse_body(EmbedBody, raw)
    (ignored or IgnoredFields()).tell("embed", ignored_fields(body))
    pooling = pooling_of(model)
    check_dimensions(body.dimensions or None, model)  # 0 asks for nothing
    inputs = [body.input] if isinstance(body.input, str) else body.input
    prompts = input_ids(inputs, model, "input")
    answer = partial(_answer, name=body.model or model.name, tokens=sum(map(len, prompts)), began=time.monotonic_ns())
    return EmbeddingRequest(prompts, pooling, True, answer)


def parse_old_embed(
    raw: bytes, model: ServedModel, max_generations: int = MAX_PROMPTS, *, ignored: IgnoredFields | None = None
) -> EmbeddingRequest:
    """Parse the body of `POST /api/embeddings`, whose one vector is not normalised; as `parse_embed`."""
    check_json_size(raw, model.context_length)
    body = parse_body(OldEmbedBody, raw)
    (ignored or IgnoredFields()).tell("embeddings", ignored_fields(body))
    pooling = pooling_of(model)
    return EmbeddingRequest(input_ids([body.prompt], model, "prompt"), pooling, False, _old_answer)


def _answer(vectors: Sequence[array[float]], *, name: str, tokens: int, began: int) -> EmbedAnswer:
    return {
        "model": name,
        "embeddings": [LazyJsonArray(vector) for vector in vectors],
        "total_duration": time.monotonic_ns() - began,
        "load_duration": 0,  # the model is there
        "prompt_eval_count": tokens,
    }


def _old_answer(vectors: Sequence[array[float]]) -> OldEmbedAnswer:
    return {"embedding": LazyJsonArray(vectors[0])}
