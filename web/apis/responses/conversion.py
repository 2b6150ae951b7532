"""Turns the body of a request into an `Asked`: what the engine is to do, and how to answer.

It takes two steps, between which the responses that the body refers to are fetched: `read_body`, and `prepare`.
Everything in here is synchronous and has no side effect but a log line, so a worker thread can do all of it.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from runtime.chat.conversation import Conversation, ReasoningChoice, Turn
from runtime.common.units import KIB
from runtime.errors import RequestError
from web.apis.responses.input.items import ITEMS, MAX_ITEMS, MessageItem, ReferenceItem, stored_items
from web.apis.responses.input.schemas import HINTS, UNSUPPORTED, JsonFormat, PromptBody, ResponseBody, SchemaFormat
from web.apis.responses.input.tools import choice_of, tools_of
from web.apis.responses.input.turns import turns_of
from web.apis.responses.output.envelope import ResponseOptions, asked_fields
from web.apis.responses.output.events import ResponseFormatter
from web.bodies.prompt_tokens import TOO_LONG, too_long
from web.bodies.strict_model import known_fields, parse_model, unknown_fields
from web.generation.asked import Asked, generation_request
from web.generation.grammars import ANY_OBJECT, schema_grammar
from web.generation.passed_over import IgnoredFields
from web.generation.prompts import conversation_prompt, errors_named
from web.storage.objects import ItemPage, check_ids

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runtime.chat.chat import ChatPrompt
    from runtime.grammar.grammar import Grammar
    from runtime.loading.served import ServedModel
    from web.apis.responses.answers import InputTokens
    from web.apis.responses.input.items import AnyItem
    from web.apis.responses.input.tools import OfferedTools
    from web.bodies.prompt_tokens import TokenIds

Json = dict[str, Any]

LOGPROBS = "message.output_text.logprobs"
"""The entry of `include` that asks for log-probabilities."""

CHARACTER_BYTES = 12
"""Bytes that a character takes at most in JSON of plain ASCII."""

NOTHING = ItemPage((), has_more=False)
"""What comes before an input that goes on with nothing."""

PARAMS = {"messages": "input", "reasoning_effort": "reasoning.effort"}
"""What is called otherwise here than in chat completions."""


@dataclass(frozen=True, slots=True)
class History:
    """Items that a body refers to, as they were stored.

    Attributes:
        before: the items that come before the input, or the newest of them, the oldest first.
        items: JSON of the items that the input refers to, by their ids.
        is_conversation: whether those before are of a conversation, in which each id is there once.
    """

    before: ItemPage = NOTHING
    items: Mapping[str, bytes] = field(default_factory=dict)
    is_conversation: bool = False

    @property
    def size(self) -> int:
        """Bytes that are to be read."""
        return sum(len(item.body) for item in self.before.items)


def most_history(model: ServedModel) -> int:
    """Return how many bytes of what comes before an input are worth reading: a prompt could not hold more."""
    return model.context_length * model.tokenizer.longest_token * CHARACTER_BYTES + MAX_ITEMS * KIB


def read_body(raw: bytes, model: ServedModel, max_generations: int = 1) -> ResponseBody:
    """Validate the body of `POST /v1/responses`.

    Raises:
        RequestError: it is not valid, or asks for what cede does not do.
    """
    return parse_model(ResponseBody, raw, UNSUPPORTED, model.context_length)


def read_prompt_body(raw: bytes, model: ServedModel, max_generations: int = 1) -> PromptBody:
    """Validate the body of `POST /v1/responses/input_tokens`.

    Raises:
        RequestError: as `read_body` does.
    """
    return parse_model(PromptBody, raw, UNSUPPORTED, model.context_length)


def check_state(body: PromptBody) -> None:
    """Raise RequestError if a body goes on with a response and with a conversation, too."""
    if body.previous_response_id is not None and body.conversation_id is not None:
        raise RequestError(
            "'previous_response_id' and 'conversation' exclude each other.",
            param="conversation",
            code="mutually_exclusive_parameters",
        )


def references(body: PromptBody) -> list[str]:
    """Return the ids of the stored items that the input refers to."""
    return [item.id for item in _own_items(body) if isinstance(item, ReferenceItem)]


def prepare(
    body: ResponseBody,
    history: History,
    model: ServedModel,
    *,
    can_store: bool = True,
    ignored: IgnoredFields | None = None,
) -> Asked[ResponseOptions]:
    """Make the request, and say how it is to be answered.

    Args:
        body: of the request.
        history: what it refers to.
        model: to be served from.
        can_store: whether the server stores responses.
        ignored: tells of fields that mean nothing.

    Raises:
        RequestError: it asks for more than the model can hold, or for what cede does not do.
    """
    store = can_store if body.store is None else body.store
    _check_consistency(body, store=store, can_store=can_store)
    key = uuid.uuid4().hex
    offered, ids, prompt = _prompt(body, history, model)
    own = _stored(body, history, key)
    shows_logprobs = LOGPROBS in (body.include or ()) or bool(body.top_logprobs)
    request = generation_request(
        known_fields(body),
        model,
        f"resp_{key}",
        [ids],
        prompt,
        max_tokens=model.sampling.max_tokens if body.max_output_tokens is None else body.max_output_tokens,
        logprobs=(body.top_logprobs or 0) if shows_logprobs else None,
    )
    (ignored or IgnoredFields()).tell(request.id, unknown_fields(body, HINTS, UNSUPPORTED))
    options = ResponseOptions(
        id=request.id,
        asked=asked_fields(body, request, model.name, store=store),
        tokenizer=model.tokenizer,
        parser=prompt.parser,
        custom=frozenset(tool.name for tool in offered.tools if tool.custom),
        apart=offered.apart,
        logprobs=shows_logprobs,
        store=store,
        background=bool(body.background),
        previous=body.previous_response_id,
        input=own,
    )
    return Asked(request, options, bool(body.stream), ResponseFormatter)


def _stored(body: PromptBody, history: History, key: str) -> list[Json]:
    """Return a body's own items as they are stored, none of which has the id of one that the conversation has."""
    own = stored_items(_resolved(body, history), key)
    if history.is_conversation:
        check_ids([*(item.id for item in history.before.items), *(item["id"] for item in own)])
    return own


def count_input_tokens(body: PromptBody, history: History, model: ServedModel) -> InputTokens:
    """Return how many tokens the prompt of a body has.

    Raises:
        RequestError: it does not fit into the context, or asks for what cede does not do.
    """
    _, ids, _ = _prompt(body, history, model)
    return {"object": "response.input_tokens", "input_tokens": len(ids)}


def _check_consistency(body: ResponseBody, *, store: bool, can_store: bool) -> None:
    """Raise RequestError if two parameters contradict each other, or the server."""
    if body.store and not can_store:
        raise RequestError("'store' is not supported by this server.", param="store", code="unsupported_parameter")
    if body.background and not store:
        raise RequestError("'background' needs 'store' to be true.", param="background")
    if body.stream_options is not None and not body.stream:
        raise RequestError("'stream_options' needs 'stream' to be true.", param="stream_options")


# --- the prompt -------------------------------------------------------------------------------------------------------


def _prompt(body: PromptBody, history: History, model: ServedModel) -> tuple[OfferedTools, TokenIds, ChatPrompt]:
    offered = tools_of(body.tools or [])
    conversation = Conversation(
        turns=_turns(body, history, model),
        tools=offered.tools,
        tool_choice=choice_of(body.tool_choice, offered),
        parallel_tool_calls=body.parallel_tool_calls is not False,
        reasoning=ReasoningChoice(effort=None if body.reasoning is None else body.reasoning.effort),
        answer=_answer_grammar(body),
        variables=body.chat_template_kwargs or {},
    )
    fit = fitting_prompt if body.truncation == "auto" else conversation_prompt
    with errors_named(PARAMS):
        ids, prompt = fit(conversation, model, "input")
    return offered, ids, prompt


def _answer_grammar(body: PromptBody) -> Grammar | None:
    """Return what the answer's text has to be; None for any text."""
    match body.text and body.text.format:
        case JsonFormat():
            return schema_grammar(ANY_OBJECT, "text.format")
        case SchemaFormat(schema_=schema):
            return schema_grammar(schema, "text.format.schema")
        case _:
            return None


def _turns(body: PromptBody, history: History, model: ServedModel) -> list[Turn]:
    """Return all turns: those of the responses before have no instructions any more, as in OpenAI's API."""
    own = _resolved(body, history)
    if len(history.before.items) + len(own) > MAX_ITEMS:
        raise RequestError(f"The input and what is before it have more than {MAX_ITEMS} items.", param="input")
    if history.before.has_more and body.truncation != "auto":
        raise too_long(model, "input")
    before = [ITEMS.validate_json(b"[%b]" % item.body)[0] for item in history.before.items]  # one at a time
    where = "conversation" if history.is_conversation else "previous_response_id"
    turns = [*turns_of(before, where), *turns_of(own)]
    if not turns:
        raise RequestError("Missing required parameter: 'input'.", param="input", code="missing_required_parameter")
    return [Turn("system", body.instructions), *turns] if body.instructions is not None else turns


def _own_items(body: PromptBody) -> list[AnyItem]:
    if isinstance(body.input, str):
        return [MessageItem(role="user", content=body.input)]
    return list(body.input or [])


def _resolved(body: PromptBody, history: History) -> list[AnyItem]:
    """Return the body's own items, with those in place that it refers to."""
    items = _own_items(body)
    return [
        ITEMS.validate_json(b"[%b]" % history.items[item.id])[0] if isinstance(item, ReferenceItem) else item
        for item in items
    ]


def fitting_prompt(conversation: Conversation, model: ServedModel, param: str) -> tuple[TokenIds, ChatPrompt]:
    """Return the prompt of as much of a conversation as fits, as `conversation_prompt` does.

    What is left begins with a user's turn, so that no output of a tool has lost its call; system turns stay.  It is
    found by bisection, with a handful of prompts.

    Args:
        conversation: what the client asks.
        model: to be served from.
        param: the field of the body that holds the turns, for errors.

    Raises:
        RequestError: not even its last user's turn, with what follows, fits; or as `conversation_prompt`.
    """
    starts = [0, *_later_starts(conversation.turns)]
    fits, found = len(starts) - 1, None
    least = 0
    while least < fits:
        middle = (least + fits) // 2
        try:
            found = conversation_prompt(_from(conversation, starts[middle]), model, param)
            fits = middle
        except RequestError as error:
            if error.code != TOO_LONG:
                raise
            least, found = middle + 1, None
    return found or conversation_prompt(_from(conversation, starts[fits]), model, param)


def _later_starts(turns: Sequence[Turn]) -> list[int]:
    """Return where a shorter conversation may begin: at each user's turn that something precedes."""
    users = [number for number, turn in enumerate(turns) if turn.role == "user"]
    return users[1:]


def _from(conversation: Conversation, start: int) -> Conversation:
    kept = [turn for number, turn in enumerate(conversation.turns) if number >= start or turn.role == "system"]
    return replace(conversation, turns=kept)
