"""Turns the bytes of an embedding request's body into what is to be computed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from web.apis.openai.embeddings.answers import embeddings
from web.apis.openai.embeddings.schema import HINTS, UNSUPPORTED, EmbeddingBody
from web.bodies.json_size import check_json_size
from web.bodies.prompt_tokens import split_prompts
from web.bodies.strict_model import parse_model, unknown_fields
from web.generation.embeddings.batch import EmbeddingRequest
from web.generation.embeddings.inputs import check_dimensions, input_ids, pooling_of
from web.generation.ignored import IgnoredFields
from web.process.limits import MAX_PROMPTS

if TYPE_CHECKING:
    from runtime.loading.served import ServedModel


def parse_embeddings(
    raw: bytes, model: ServedModel, max_generations: int = MAX_PROMPTS, *, ignored: IgnoredFields | None = None
) -> EmbeddingRequest:
    """Parse the body of `POST /v1/embeddings`.

    Args:
        raw: the body.
        model: to be served from.
        max_generations: that the server can hold at a time; a batch may have more, which are read one after the other.
        ignored: tells of fields that mean nothing.

    Raises:
        RequestError: the body is not valid, or asks for more than the server or the model can do.
    """
    check_json_size(raw, model.context_length)
    body = parse_model(EmbeddingBody, raw, UNSUPPORTED)
    pooling = pooling_of(model)
    check_dimensions(body.dimensions, model)
    prompts = input_ids(split_prompts(body.input), model, "input")
    unknown = unknown_fields(body, HINTS, UNSUPPORTED)
    (ignored or IgnoredFields()).tell("embeddings", unknown)
    tokens = sum(map(len, prompts))
    in_base64 = body.encoding_format == "base64"
    answer = partial(embeddings, name=body.model or model.name, pooling=pooling, tokens=tokens, in_base64=in_base64)
    return EmbeddingRequest(prompts, pooling, body.normalize is not False, answer, body.priority or 0)
