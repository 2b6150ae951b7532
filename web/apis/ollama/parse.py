"""The bodies of the endpoints that generate, and of those that embed, as what they ask for.

Everything in here is synchronous and has no side effect but a log line, so a worker thread can do all of it.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from runtime.chat.chat import ChatPrompt
from runtime.chat.conversation import Conversation, Turn
from runtime.errors import RequestError
from web.apis.ollama.answers import message_shape, response_shape
from web.apis.ollama.asked import answer_request, load_request
from web.apis.ollama.conversations import answer_grammar, conversation_of, reasoning_of
from web.apis.ollama.schemas import ChatBody, EmbedBody, GenerateBody, OldEmbedBody, ignored_fields, parse_body
from web.bodies.json_encoding import LazyJsonArray
from web.bodies.prompt_tokens import check_token_ids, encode_prompt
from web.generation.embeddings import EmbeddingRequest, check_dimensions, input_ids, pooling_of
from web.generation.infill import Infill, infill_end_ids, infill_prompt
from web.generation.passed_over import IgnoredFields
from web.generation.prompts import conversation_prompt
from web.process.limits import MAX_PROMPTS

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

    from runtime.loading.served import ServedModel
    from web.apis.ollama.answers import AnswerOptions, EmbedAnswer, OldEmbedAnswer
    from web.apis.ollama.asked import LoadRequest
    from web.bodies.prompt_tokens import TokenIds
    from web.generation.asked import Asked


def parse_chat(
    raw: bytes, model: ServedModel, max_generations: int = MAX_PROMPTS, *, ignored: IgnoredFields | None = None
) -> Asked[AnswerOptions] | LoadRequest:
    """Parse the body of `POST /api/chat`; like a `responder.ParseFunction`, and `ignored` tells of its other fields."""
    ignored = ignored or IgnoredFields()
    body = parse_body(ChatBody, raw, model.context_length)
    if not body.messages:
        return load_request(body, model, message_shape)
    if model.chat is None:
        raise RequestError("This model has no chat template; use /api/generate.", param="messages")
    conversation = conversation_of(body, open_objects=model.open_objects)
    ids, prompt = conversation_prompt(conversation, model)
    return answer_request(
        body, model, ids, message_shape, ignored, prompt=prompt, continues=conversation.continue_final
    )


def parse_generate(
    raw: bytes, model: ServedModel, max_generations: int = MAX_PROMPTS, *, ignored: IgnoredFields | None = None
) -> Asked[AnswerOptions] | LoadRequest:
    """Parse the body of `POST /api/generate`; as `parse_chat`."""
    ignored = ignored or IgnoredFields()
    body = parse_body(GenerateBody, raw, model.context_length)
    if not body.prompt and not body.suffix:
        return load_request(body, model, response_shape)
    _check_consistency(body, model)
    text = body.prompt or ""
    plain = ChatPrompt("", grammar=answer_grammar(body, open_objects=model.open_objects))
    if body.raw:
        ids = encode_prompt(text, model, "prompt")
        return answer_request(body, model, ids, response_shape, ignored, prompt=plain, continues=True)
    if body.suffix:
        ids = infill_prompt(Infill(text, body.suffix), model, "suffix")
        return answer_request(
            body,
            model,
            ids,
            response_shape,
            ignored,
            prompt=plain,
            continues=True,
            context=True,
            end_ids=infill_end_ids(model),
        )
    earlier = check_token_ids(tuple(body.context), model, "context") if body.context else ()
    if model.chat is None:
        ids = encode_prompt(text, model, "prompt", add_special_tokens=not earlier)
        ids = _after(earlier, ids, model)
        return answer_request(body, model, ids, response_shape, ignored, prompt=plain, continues=True, context=True)
    system = [Turn("system", body.system)] if body.system else []
    conversation = Conversation(
        [*system, Turn("user", text)],
        reasoning=reasoning_of(body.think),
        answer=answer_grammar(body, open_objects=model.open_objects),
    )
    ids, prompt = conversation_prompt(conversation, model, "prompt")
    ids = _after(earlier, ids, model)
    return answer_request(body, model, ids, response_shape, ignored, prompt=prompt, context=True)


def _check_consistency(body: GenerateBody, model: ServedModel) -> None:
    """Raise RequestError if fields contradict each other, or ask for a chat template where none is used."""
    if body.raw and body.suffix:
        raise RequestError("'raw' and 'suffix' exclude each other.", param="suffix")
    plain = "raw" if body.raw else "suffix" if body.suffix else None
    if plain and body.context:
        raise RequestError(f"'{plain}' and 'context' exclude each other.", param="context")
    for field in ("system", "think"):
        if getattr(body, field) and plain:
            raise RequestError(f"'{plain}' and '{field}' exclude each other.", param=field)
        if getattr(body, field) and model.chat is None:
            raise RequestError(f"This model has no chat template, which '{field}' needs.", param=field)


def _after(earlier: TokenIds, ids: TokenIds, model: ServedModel) -> TokenIds:
    """Return what a prompt is after an earlier one and its answer: a text begins only once."""
    begin = tuple(model.tokenizer.encode("")) if earlier else ()
    if begin and ids[: len(begin)] == begin:
        ids = ids[len(begin) :]
    return check_token_ids(earlier + ids, model, "prompt")


def parse_embed(
    raw: bytes, model: ServedModel, max_generations: int = MAX_PROMPTS, *, ignored: IgnoredFields | None = None
) -> EmbeddingRequest:
    """Parse the body of `POST /api/embed`, whose vectors are normalised; as `parse_chat`.

    A batch may have more prompts than the server can hold at a time: they are read one after the other.
    """
    body = parse_body(EmbedBody, raw, model.context_length)
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
    body = parse_body(OldEmbedBody, raw, model.context_length)
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
