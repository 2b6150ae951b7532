"""Turns the bytes of a body into a `MessagesRequest`: what the engine is to do, and how to answer.

Everything in here is synchronous and has no side effect but log lines, so a worker thread can do all of it.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from actors.core.generation import GenerationRequest
from runtime.text.stop_strings import StopAutomaton
from web.anthropic.answers.message import MessageOptions
from web.anthropic.answers.message_builder import MessageBuilder
from web.anthropic.answers.stream import MessageStream
from web.anthropic.prompts.conversation import conversation_of
from web.anthropic.prompts.schemas import HINTS, UNSUPPORTED, CountBody, MessagesBody
from web.bodies.json_size import check_json_size
from web.bodies.prompt_tokens import check_generations
from web.bodies.strict_model import parse_model, unknown_fields
from web.control.fields import control_of
from web.generation.ignored import IgnoredFields
from web.generation.prompts import conversation_prompt, visible_ids
from web.generation.sampling import sampling_params
from web.generation.tiers import priority_of
from web.limits import MAX_PROMPTS

if TYPE_CHECKING:
    from runtime.chat.chat import ChatPrompt
    from runtime.loading.served import ServedModel
    from web.anthropic.prompts.schemas import PromptBody
    from web.bodies.prompt_tokens import TokenIds

BodyT = TypeVar("BodyT", bound="PromptBody")


@dataclass(frozen=True, slots=True)
class MessagesRequest:
    """A request for a message that was understood; an `Asked`.

    Attributes:
        request: what the engine is to do.
        options: how to answer.
        stream: whether to answer with a stream of events.
    """

    request: GenerationRequest
    options: MessageOptions
    stream: bool

    def writer(self) -> MessageStream:
        """Return a fresh writer of the stream."""
        return MessageStream(self.options)

    def collector(self, page_bytes: int) -> MessageBuilder:
        """Return a fresh builder of the whole message."""
        return MessageBuilder(self.options, page_bytes)


def parse_messages(
    raw: bytes, model: ServedModel, max_generations: int = MAX_PROMPTS, *, ignored: IgnoredFields | None = None
) -> MessagesRequest:
    """Parse the body of `POST /v1/messages`.

    Args:
        raw: the body.
        model: to be served from.
        max_generations: that the server can hold.
        ignored: tells of fields that mean nothing.

    Raises:
        RequestError: the body is not valid, or asks for more than the server or the model can hold.
    """
    check_generations(1, 1, max_generations)
    body, ids, prompt = _read(MessagesBody, raw, model)
    room = model.context_length - len(ids)
    request = GenerationRequest(
        id=f"msg_{uuid.uuid4().hex}",
        prompts=(ids,),
        sampling=sampling_params(dict(body), model),
        max_tokens=min(body.max_tokens, room),
        stop=StopAutomaton(body.stop_sequences or ()),
        ignore_eos=bool(body.ignore_eos),
        continues=body.messages[-1].role == "assistant",
        cache_prompt=body.cache_prompt is not False,
        speculate=body.speculate is not False,
        visible=visible_ids(prompt, model),
        grammar=prompt.grammar,
        control=control_of(body.cede),
        priority=priority_of(body.priority),
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
    return MessagesRequest(request, options, bool(body.stream))


def count_tokens(raw: bytes, model: ServedModel, max_generations: int = MAX_PROMPTS) -> int:
    """Return how many tokens the prompt of a body has: that of `POST /v1/messages/count_tokens`.

    Args:
        raw: the body.
        model: whose tokens are counted.
        max_generations: not looked at, for nothing is generated.

    Raises:
        RequestError: the body is not valid, or its prompt does not fit into the context.
    """
    _, ids, _ = _read(CountBody, raw, model)
    return len(ids)


def _read(schema: type[BodyT], raw: bytes, model: ServedModel) -> tuple[BodyT, TokenIds, ChatPrompt]:
    """Return a body, and its prompt as token ids and as the model's chat format made it."""
    check_json_size(raw, model.context_length)
    body = parse_model(schema, raw, UNSUPPORTED)
    ids, prompt = conversation_prompt(conversation_of(body), model)
    return body, ids, prompt
