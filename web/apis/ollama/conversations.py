"""The messages of a chat as a conversation."""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING

from runtime.chat.conversation import Conversation, ReasoningChoice, Tool, ToolCall, Turn
from runtime.grammar.closed import closed_objects
from web.apis.ollama.schemas import UNSUPPORTED_IN_MESSAGES
from web.bodies.strict_model import refuse_unsupported
from web.generation.grammars import ANY_OBJECT, schema_grammar
from web.generation.prompts import NO_PARAMETERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.grammar.grammar import Grammar
    from web.apis.ollama.schemas import ChatBody, GenerationBody, Message, ToolBody


def conversation_of(body: ChatBody, *, open_objects: bool = False) -> Conversation:
    """Return what a chat's body asks of the model; `open_objects` as `answer_grammar` has it.

    A last message of the assistant is the beginning of the answer, as in Ollama.

    Raises:
        RequestError: a message holds what cede does not read.
    """
    messages = body.messages or []
    turns = turns_of(messages)
    continues = bool(turns) and turns[-1].role == "assistant" and not turns[-1].tool_calls
    tools = [_tool(tool) for tool in body.tools or ()]
    return Conversation(
        turns=turns,
        tools=tools,
        reasoning=reasoning_of(body.think),
        answer=answer_grammar(body, open_objects=open_objects),
        add_generation_prompt=not continues,
        continue_final=continues,
    )


def reasoning_of(think: bool | str | None) -> ReasoningChoice:
    """Return the choice that the field `think` makes: whether, or how much, or nothing."""
    if isinstance(think, str):
        return ReasoningChoice(enabled=True, effort=think)
    return ReasoningChoice(enabled=think)


def answer_grammar(body: GenerationBody, *, open_objects: bool = False) -> Grammar | None:
    """Return what the text of an answer must be, by the field `format`; None for any text.

    An object has the properties that its schema lists, unless that says otherwise, or `open_objects` is set: Ollama's
    own grammars are so, and what its clients write counts on it.
    """
    if body.format in (None, ""):
        return None
    schema = ANY_OBJECT if body.format == "json" else body.format
    return schema_grammar(schema if open_objects or isinstance(schema, str) else closed_objects(schema), "format")


def turns_of(messages: Sequence[Message]) -> list[Turn]:
    """Return messages as turns.

    Ollama's calls need no ids, and its results name the tool at most.  So calls without an id are numbered, and a
    result without one answers the first call of its tool, or of any, that has no result yet.

    Raises:
        RequestError: a message holds what cede does not read.
    """
    turns: list[Turn] = []
    pending: deque[ToolCall] = deque()
    count = 0
    for index, message in enumerate(messages):
        refuse_unsupported(message, UNSUPPORTED_IN_MESSAGES, f"messages.{index}.")
        calls = []
        for call in message.tool_calls or ():
            arguments = json.dumps(call.function.arguments or {}, ensure_ascii=False)
            calls.append(ToolCall(call.id or f"call_{count}", call.function.name, arguments))
            count += 1
        if calls:
            pending = deque(calls)
        answered = _answered(message, pending) if message.role == "tool" else None
        turns.append(
            Turn(
                role=message.role,
                content=message.content if message.content or not calls else None,
                reasoning=message.thinking or None,
                tool_calls=tuple(calls),
                tool_call_id=message.tool_call_id or (answered.id if answered else None),
                name=message.tool_name or (answered.name if answered else None),
            )
        )
    return turns


def _answered(message: Message, pending: deque[ToolCall]) -> ToolCall | None:
    """Take the call that a result answers out of those that have none; None where there is no such call."""
    for call in pending:
        if message.tool_call_id == call.id if message.tool_call_id else message.tool_name in (None, call.name):
            pending.remove(call)
            return call
    return None


def _tool(tool: ToolBody) -> Tool:
    function = tool.function
    return Tool(function.name, function.description, function.parameters or NO_PARAMETERS)
