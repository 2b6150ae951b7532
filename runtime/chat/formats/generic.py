"""Tools for models whose template knows none: they are described in the system turn, and called as in Hermes.

Nothing else is asked of the template: earlier calls are text of the assistant's turns, and results are the user's.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from runtime.chat.formats.hermes import CLOSING, OPENING
from runtime.chat.messages import arguments_text, custom_names, plain_message, tool_schema

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

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


def generic_messages(conversation: Conversation, tools: Sequence[Tool], *, system: bool) -> list[Message]:
    """Return the turns of a conversation as messages that any template shows.

    Args:
        conversation: the chat.
        tools: to be described.
        system: whether the template accepts a system turn.
    """
    custom = custom_names(conversation)
    messages: list[Message] = []
    for turn in conversation.turns:
        message = _message(turn, custom)
        # Results, and what the user said behind them, are one turn: many templates want the roles to alternate.
        if messages and turn.role in ("tool", "user") and messages[-1].pop("result", False):
            message["content"] = f"{messages.pop()['content']}\n{message['content']}"
        messages.append(message)
    for message in messages:
        message.pop("result", None)
    return _described(messages, tools, system=system) if tools else messages


def _message(turn: Turn, custom: Collection[str]) -> Message:
    message = plain_message(turn)
    if turn.role == "tool":
        content = f"<tool_response>\n{turn.content or ''}\n</tool_response>"
        return {"role": "user", "content": content, "result": True}
    if turn.tool_calls:
        written = [
            f'{OPENING}\n{{"name": {json.dumps(call.name)}, "arguments": {arguments_text(call, custom)}}}\n{CLOSING}'
            for call in turn.tool_calls
        ]
        message["content"] = "\n".join([turn.content, *written] if turn.content else written)
    return message


def _described(messages: list[Message], tools: Sequence[Tool], *, system: bool) -> list[Message]:
    """Put the description of the tools where the template shows it."""
    lines = "\n".join(json.dumps(tool_schema(tool)["function"], ensure_ascii=False) for tool in tools)
    text = INSTRUCTIONS.format(tools=lines)
    role = "system" if system else "user"
    if not messages or messages[0]["role"] != role:
        return [{"role": role, "content": text}, *messages]
    first = messages[0]
    joined = [first.get("content", ""), text] if system else [text, first.get("content", "")]
    return [{**first, "content": "\n\n".join(filter(None, joined))}, *messages[1:]]
