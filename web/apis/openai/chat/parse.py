"""Turns the bytes of a chat's body into an `Asked`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.errors import RequestError
from web.apis.openai.chat.record import record_of
from web.bodies.json_size import check_json_size
from web.bodies.prompt_tokens import check_generations, encode_prompt, kept_tokens
from web.bodies.strict_model import parse_model, unknown_fields
from web.generation.asked import Asked
from web.generation.grammars import grammar_of
from web.generation.openai_format.chat.answers import ChatFormatter
from web.generation.openai_format.chat.messages import conversation_of, text_of
from web.generation.openai_format.chat.schema import ChatBody
from web.generation.openai_format.chat.tools import LEGACY_PARAMS, is_legacy
from web.generation.openai_format.requests import (
    Settings,
    check_consistency,
    generations,
    openai_request,
    response_options,
    token_limit,
)
from web.generation.openai_format.schemas import HINTS, UNSUPPORTED
from web.generation.prompts import conversation_prompt, errors_named
from web.generation.tiers import tier_of
from web.process.limits import MAX_PROMPTS

if TYPE_CHECKING:
    from runtime.loading.served import ServedModel
    from web.bodies.prompt_tokens import TokenIds
    from web.generation.openai_format.answers.options import ResponseOptions


def parse_chat(
    raw: bytes, model: ServedModel, max_generations: int = MAX_PROMPTS, *, settings: Settings | None = None
) -> Asked[ResponseOptions]:
    """Parse the body of `POST /v1/chat/completions`.

    Args:
        raw: the body.
        model: to be served from.
        max_generations: choices that the server can hold.
        settings: how this server answers.

    Raises:
        RequestError: the body is not valid, or asks for more than the server or the model can hold.
    """
    settings = settings or Settings()
    check_json_size(raw, model.context_length)
    body = parse_model(ChatBody, raw, UNSUPPORTED)
    if body.store and not settings.stores:
        raise RequestError("'store' is not supported by this server.", param="store", code="unsupported_parameter")
    check_generations(1, generations(body), max_generations)
    max_tokens = token_limit(body, body.max_completion_tokens, default=model.sampling.max_tokens)
    check_consistency(body, max_tokens)
    with errors_named(LEGACY_PARAMS if is_legacy(body) else {}):
        conversation = replace(conversation_of(body), answer=grammar_of(body))
    keep = kept_tokens(body.truncate_prompt_tokens, model, max_tokens)
    ids, prompt = conversation_prompt(conversation, model, keep=keep)
    request = openai_request(
        body,
        model,
        "chatcmpl",
        [ids],
        prompt,
        max_tokens=max_tokens,
        logprobs=_chat_logprobs(body),
        continues=bool(body.continue_final_message),
        prediction=_prediction(body, model),
    )
    settings.ignored.tell(request.id, unknown_fields(body, HINTS, UNSUPPORTED))
    options = replace(
        response_options(body, request, model, parser=prompt.parser, logprobs=bool(body.logprobs)),
        reasoning=settings.reasoning,
        custom=frozenset(tool.name for tool in conversation.tools if tool.custom),
        legacy=is_legacy(body),
        service_tier=tier_of(request.priority) if body.service_tier else None,
        record=record_of(body, request.id) if body.store else None,
    )
    return Asked(request, options, bool(body.stream), ChatFormatter)


def _prediction(body: ChatBody, model: ServedModel) -> TokenIds:
    """Return what the answer probably is, as token ids.

    Raises:
        RequestError: no answer can be so long.
    """
    if body.prediction is None:
        return ()
    text = text_of(body.prediction.content)
    return encode_prompt(text, model, "prediction", add_special_tokens=False) if text else ()


def _chat_logprobs(body: ChatBody) -> int | None:
    if body.top_logprobs and not body.logprobs:
        raise RequestError("'top_logprobs' needs 'logprobs' to be true.", param="top_logprobs")
    return (body.top_logprobs or 0) if body.logprobs else None
