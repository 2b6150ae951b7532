"""Tools for models whose template knows none: they are described in the system turn, and called as in Hermes.

Nothing else is asked of the template: earlier calls are text of the assistant's turns, and results are the user's.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from runtime.chat.formats.hermes import CLOSING, OPENING
from runtime.chat.messages import arguments_text, custom_names, plain_message, thought_field, tool_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from runtime.chat.conversation import Conversation, Tool, Turn
    from runtime.chat.messages import Message

INSTRUCTIONS = f"""\
You can call these functions, each of which is described by a line of JSON:
<tools>
{{tools}}
</tools>
To call one, write a JSON object with its name and arguments between these markers, and nothing after the last call:
{OPENING}
{{{{"name": "the function's name", "arguments": {{{{"the argument's name": "its value"}}}}}}}}
{CLOSING}
The results will come between <tool_response> and </tool_response>. If no function helps, answer in plain words."""


def generic_messages(
    conversation: Conversation, write: Callable[[Sequence[tuple[str, str]]], str], reasoning_field: str | None
) -> list[Message]:
    """Return the turns of a conversation as messages that any template shows.

    Args:
        conversation: the chat.
        write: returns calls, by their names and arguments, as text.
        reasoning_field: of the template, for what was thought; None where it reads none.
    """
    custom = custom_names(conversation)
    messages: list[Message] = []
    after_result = False
    for turn in conversation.turns:
        message = _message(turn, custom, write) | thought_field(turn, reasoning_field)
        # Results, and what the user says behind them, are one turn: many templates want the roles to alternate.
        if after_result and message["role"] == "user":
            message["content"] = f"{messages.pop()['content']}\n{message.get('content', '')}"
        messages.append(message)
        after_result = turn.role == "tool"
    return messages


def _message(turn: Turn, custom: Collection[str], write: Callable[[Sequence[tuple[str, str]]], str]) -> Message:
    if turn.role == "tool":
        return {"role": "user", "content": f"<tool_response>\n{turn.content or ''}\n</tool_response>"}
    message = plain_message(turn)
    if turn.tool_calls:
        written = write([(call.name, arguments_text(call, custom)) for call in turn.tool_calls])
        message["content"] = f"{turn.content}\n{written}" if turn.content else written
    return message


def described(messages: list[Message], tools: Sequence[Tool], *, system: bool) -> list[Message]:
    """Return messages with a description of the tools, and of how to call them.

    Args:
        messages: for a template that shows no tools.
        tools: to be described.
        system: whether the template accepts a system turn; without one the first turn describes them.
    """
    lines = "\n".join(json.dumps(tool_schema(tool)["function"], ensure_ascii=False) for tool in tools)
    text = INSTRUCTIONS.format(tools=lines)
    role = "system" if system else "user"
    if not messages or messages[0]["role"] != role:
        return [{"role": role, "content": text}, *messages]
    first = messages[0]
    joined = [first.get("content", ""), text] if system else [text, first.get("content", "")]
    return [{**first, "content": "\n\n".join(filter(None, joined))}, *messages[1:]]
