"""Chat completions: a body as an `Asked`, and what is stored beside its answer.

Bodies and answers are in `web.generation.openai_format.chat`, which other APIs have as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NotRequired

from typing_extensions import TypedDict

from runtime.errors import RequestError
from web.bodies.prompt_tokens import check_generations, encode_prompt, kept_tokens
from web.bodies.strict_model import parse_model, unknown_fields
from web.generation.asked import Asked, tier_of
from web.generation.grammars import grammar_of
from web.generation.openai_format.answers.options import ChatRecord
from web.generation.openai_format.chat.answers import CalledFunction, ChatFormatter, ToolCall
from web.generation.openai_format.chat.messages import conversation_of, text_of
from web.generation.openai_format.chat.schema import ChatBody, RefusalPart, TextPart
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
from web.process.limits import MAX_PROMPTS

if TYPE_CHECKING:
    from runtime.loading.served import ServedModel
    from web.bodies.prompt_tokens import TokenIds
    from web.generation.openai_format.answers.options import ResponseOptions
    from web.generation.openai_format.chat.schema import Message


def parse_chat(
    raw: bytes, model: ServedModel, max_generations: int = MAX_PROMPTS, *, settings: Settings | None = None
) -> Asked[ResponseOptions]:
    """Parse the body of `POST /v1/chat/completions`; a `responder.ParseFunction`, with how this server answers."""
    settings = settings or Settings()
    body = parse_model(ChatBody, raw, UNSUPPORTED, model.context_length)
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


CARRIED = ("name", "tool_call_id", "tool_calls", "function_call", "reasoning_content", "reasoning")
"""Fields of a message that are shown as they were given, where they were."""


class ContentPart(TypedDict):
    """A text in a message's content."""

    type: Literal["text"]
    text: str


class StoredMessage(TypedDict):
    """A message of the request."""

    id: str
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | None
    content_parts: list[ContentPart] | None
    refusal: str | None
    name: NotRequired[str]
    tool_call_id: NotRequired[str]
    tool_calls: NotRequired[list[ToolCall]]
    function_call: NotRequired[CalledFunction]
    reasoning_content: NotRequired[str]
    reasoning: NotRequired[str]


def record_of(body: ChatBody, id: str) -> ChatRecord:
    """Return what is to be stored of a body beside its answer.

    Args:
        body: of the request.
        id: of the answer; those of the messages begin with it, as at OpenAI.
    """
    messages = [_stored(message, f"{id}-{number}") for number, message in enumerate(body.messages)]
    return ChatRecord(messages, body.metadata or {})


def _stored(message: Message, id: str) -> StoredMessage:
    content, refusals = message.content, [message.refusal or ""]
    parts: list[ContentPart] | None = None
    if isinstance(content, list):
        parts = [{"type": "text", "text": part.text} for part in content if isinstance(part, TextPart)]
        refusals += [part.refusal for part in content if isinstance(part, RefusalPart)]
        content = "\n".join(part["text"] for part in parts)
    refusal = "\n".join(filter(None, refusals)) or None
    stored: StoredMessage = {
        "id": id,
        "role": message.role,
        "content": content,
        "content_parts": parts,
        "refusal": refusal,
    }
    given: Any = message.model_dump(mode="json", include={*CARRIED}, exclude_none=True)
    stored |= given
    return stored
