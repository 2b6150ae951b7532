"""Turns as chat templates expect messages."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from runtime.chat.reading.json_strings import INPUT
from runtime.chat.traits import CallIds, CallTraits, silent
from runtime.grammar.grammar import GrammarKind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from runtime.chat.conversation import Conversation, Tool, ToolCall, Turn
    from runtime.chat.traits import TemplateTraits
    from runtime.grammar.grammar import Grammar

Message = dict[str, Any]

_SHORT_ID = 9


def template_messages(conversation: Conversation, traits: TemplateTraits) -> list[Message]:
    """Return the turns of a conversation as messages for a template that shows calls.

    Args:
        conversation: the chat.
        traits: of the template.
    """
    custom = custom_names(conversation)
    calls = traits.calls or CallTraits()
    made = [call for turn in conversation.turns for call in turn.tool_calls]
    names = {call.id: call.name for call in made}
    ids = {call.id: _call_id(call, number, calls.ids) for number, call in enumerate(made)}
    return [_message(turn, traits, custom, names, ids) for turn in conversation.turns]


def custom_names(conversation: Conversation) -> frozenset[str]:
    """Return the names of a conversation's custom tools."""
    return frozenset(tool.name for tool in conversation.tools if tool.custom)


def _message(
    turn: Turn, traits: TemplateTraits, custom: Collection[str], names: Mapping[str, str], ids: Mapping[str, str]
) -> Message:
    calls = traits.calls or CallTraits()
    message = plain_message(turn)
    if turn.tool_calls:
        if turn.content is None:
            message |= silent(calls.content)
        message["tool_calls"] = [_call(call, ids[call.id], calls, custom) for call in turn.tool_calls]
    if turn.tool_call_id is not None:
        message["tool_call_id"] = ids.get(turn.tool_call_id, turn.tool_call_id)
        if turn.name is None and turn.tool_call_id in names:
            message["name"] = names[turn.tool_call_id]
    return message | thought_field(turn, traits.reasoning_field)


def thought_field(turn: Turn, field: str | None) -> Message:
    """Return what a turn thought in the field that the template reads; nothing where there is none."""
    # Where the field is `thinking`, as in gpt-oss, a turn that calls has either a text or that.
    shown = turn.reasoning and field and not (field == "thinking" and turn.tool_calls and turn.content)
    return {field: turn.reasoning} if field and shown else {}


def plain_message(turn: Turn) -> Message:
    """Return a turn's role, text and name; one that says nothing, and calls nothing, has an empty text."""
    text = turn.content if turn.tool_calls else turn.content or ""
    fields = {"role": turn.role, "content": text, "name": turn.name}
    return {name: value for name, value in fields.items() if value is not None}


def _call(call: ToolCall, call_id: str, traits: CallTraits, custom: Collection[str]) -> Message:
    arguments: object = arguments_text(call, custom) if traits.arguments_as_text else call_arguments(call, custom)
    if isinstance(arguments, str) and not traits.takes_text:
        arguments = {INPUT: arguments}  # what the model wrote is no object, and the template goes through one
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def call_arguments(call: ToolCall, custom: Collection[str]) -> object:
    """Return the arguments of an earlier call as an object; as they are where the model wrote something else."""
    if call.name in custom:
        return {INPUT: call.arguments}
    try:
        parsed = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return call.arguments
    return parsed if isinstance(parsed, dict) else call.arguments


def arguments_text(call: ToolCall, custom: Collection[str]) -> str:
    """Return the arguments of an earlier call as JSON."""
    return json.dumps({INPUT: call.arguments}, ensure_ascii=False) if call.name in custom else call.arguments or "{}"


def _call_id(call: ToolCall, number: int, kind: CallIds) -> str:
    """Return the id of a call, of which there are `number` before it, as the template wants it."""
    match kind:
        case CallIds.NAMED:
            return f"functions.{call.name}:{number}"
        case CallIds.SHORT if not (len(call.id) == _SHORT_ID and call.id.isascii() and call.id.isalnum()):
            # A hash, so that the same id becomes the same one in the next request, too.
            return hashlib.blake2b(call.id.encode(errors="replace"), digest_size=8).hexdigest()[:_SHORT_ID]
        case _:
            return call.id


def with_tools_in_system(messages: list[Message], tools: Sequence[Tool]) -> list[Message]:
    """Return messages whose system turn holds the tools as JSON, for templates that show them so (Phi-4-mini)."""
    text = json.dumps([tool_schema(tool)["function"] for tool in tools], ensure_ascii=False)
    if messages and messages[0]["role"] == "system":
        return [{**messages[0], "tools": text}, *messages[1:]]
    return [{"role": "system", "content": "", "tools": text}, *messages]


def tool_schema(tool: Tool) -> Message:
    """Return a tool as templates expect it."""
    parameters: object = dict(tool.parameters) or {"type": "object", "properties": {}}
    if tool.custom:
        text = {"type": "string", "description": _about_input(tool.grammar)}
        parameters = {"type": "object", "properties": {INPUT: text}, "required": [INPUT]}
    function = {"name": tool.name, "description": tool.description or "", "parameters": parameters}
    return {"type": "function", "function": function}


def _about_input(grammar: Grammar | None) -> str:
    """Return what the model is told of a custom tool's input: also where it is held to the grammar."""
    if grammar is None:
        return "The input, as it is."
    language = "Lark grammar" if grammar.kind is GrammarKind.LARK else "regular expression"
    return f"The input, as it is; all of it has to match this {language}:\n{grammar.source}"
