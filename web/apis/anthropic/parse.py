"""Turns the bytes of a body into an `Asked`: what the engine is to do, and how to answer.

Everything in here is synchronous and has no side effect but log lines, so a worker thread can do all of it.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, TypeVar

from web.apis.anthropic.answers import MessageFormatter, MessageOptions
from web.apis.anthropic.prompts.conversation import conversation_of
from web.apis.anthropic.prompts.schemas import HINTS, UNSUPPORTED, CountBody, MessagesBody
from web.bodies.prompt_tokens import check_generations
from web.bodies.strict_model import known_fields, parse_model, unknown_fields
from web.generation.asked import Asked, generation_request
from web.generation.passed_over import IgnoredFields
from web.generation.prompts import conversation_prompt
from web.process.limits import MAX_PROMPTS

if TYPE_CHECKING:
    from runtime.chat.chat import ChatPrompt
    from runtime.loading.served import ServedModel
    from web.apis.anthropic.answers import TokenCount
    from web.apis.anthropic.prompts.schemas import PromptBody
    from web.bodies.prompt_tokens import TokenIds

BodyT = TypeVar("BodyT", bound="PromptBody")


def parse_messages(
    raw: bytes, model: ServedModel, max_generations: int = MAX_PROMPTS, *, ignored: IgnoredFields | None = None
) -> Asked[MessageOptions]:
    """Parse the body of `POST /v1/messages`; a `responder.ParseFunction`, and `ignored` tells of its other fields."""
    check_generations(1, 1, max_generations)
    body, ids, prompt = _read(MessagesBody, raw, model)
    room = model.context_length - len(ids)
    request = generation_request(
        known_fields(body) | {"stop": body.stop_sequences},
        model,
        f"msg_{uuid.uuid4().hex}",
        [ids],
        prompt,
        max_tokens=body.max_tokens,
        continues=body.messages[-1].role == "assistant",
    )
    (ignored or IgnoredFields()).tell(request.id, unknown_fields(body, HINTS, UNSUPPORTED))
    options = MessageOptions(
        id=request.id,
        model=body.model,
        prompt_tokens=len(ids),
        room=room if body.max_tokens > room else None,
        show_thinking=body.thinking is None or body.thinking.display != "omitted",
        parser=prompt.parser,
    )
    return Asked(request, options, bool(body.stream), MessageFormatter)


def count_tokens(raw: bytes, model: ServedModel, max_generations: int = MAX_PROMPTS) -> TokenCount:
    """Return how many tokens the prompt of a body has: that of `POST /v1/messages/count_tokens`.

    Raises:
        RequestError: the body is not valid, or its prompt does not fit into the context.
    """
    _, ids, _ = _read(CountBody, raw, model)
    return {"input_tokens": len(ids)}


def _read(schema: type[BodyT], raw: bytes, model: ServedModel) -> tuple[BodyT, TokenIds, ChatPrompt]:
    """Return a body, and its prompt as token ids and as the model's chat format made it."""
    body = parse_model(schema, raw, UNSUPPORTED, model.context_length)
    ids, prompt = conversation_prompt(conversation_of(body), model)
    return body, ids, prompt
