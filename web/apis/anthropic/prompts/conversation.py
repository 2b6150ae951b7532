"""Conversation that a body asks the model to continue."""

from __future__ import annotations

import json
import logging
import re
from itertools import groupby
from typing import TYPE_CHECKING

from runtime.chat.conversation import Conversation, ReasoningChoice, ToolCall, Turn
from runtime.common.log_text import literal
from runtime.errors import RequestError
from web.apis.anthropic.prompts.blocks import (
    OtherBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolReferenceBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from web.apis.anthropic.prompts.tools import tool_choice_of, tools_of
from web.generation.grammars import schema_grammar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from runtime.grammar.grammar import Grammar
    from web.apis.anthropic.prompts.schemas import Message, PromptBody

    AnyBlock = TextBlock | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock | ToolResultBlock | OtherBlock
    PlacedBlock = tuple[str, AnyBlock]  # with its path in the body

FAILED = "Error: "
"""Before what a tool returned with `is_error`: chat templates know no other way to say so."""

HIGHEST_EFFORTS = {"xhigh": "high", "max": "high"}
"""Efforts of Anthropic's for which templates have no word."""

READ = {
    "system": (TextBlock,),
    "user": (TextBlock, ToolResultBlock),
    "assistant": (TextBlock, ThinkingBlock, RedactedThinkingBlock, ToolUseBlock),
}
"""The blocks that a message of each role may have."""


def conversation_of(body: PromptBody) -> Conversation:
    """Return what a body asks of the model.

    As in Anthropic's API, messages of one role that follow each other are one message, and a last message of the
    assistant's is the beginning of the answer.

    Raises:
        RequestError: a block cannot be read here, or tools, calls and their results do not fit together.
    """
    tools, choice = tools_of(body.tools or ()), tool_choice_of(body.tool_choice)
    turns = [*_system(body), *_turns(body.messages)]
    _check_calls(turns)
    return Conversation(
        turns=turns,
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=body.tool_choice is None or not body.tool_choice.disable_parallel_tool_use,
        reasoning=_reasoning(body),
        answer=_answer(body),
        continue_final=turns[-1].role == "assistant",
    )


def _answer(body: PromptBody) -> Grammar | None:
    """Return what the text of the answer must be, which a body may say in either of two places."""
    config = body.output_config.format if body.output_config is not None else None
    if config is not None and body.output_format is not None:
        message = "'output_config.format' and 'output_format' exclude each other: give one."
        raise RequestError(message, param="output_format")
    if config is not None:
        return schema_grammar(config.schema_, "output_config.format.schema")
    return schema_grammar(body.output_format.schema_, "output_format.schema") if body.output_format else None


def _reasoning(body: PromptBody) -> ReasoningChoice:
    """Return how the model is to think: not at all where the client says nothing, as in Anthropic's API."""
    thinking = body.thinking
    if thinking is None or thinking.type == "disabled":
        return ReasoningChoice(enabled=False, off_is_wish=thinking is None)
    effort = body.output_config.effort if body.output_config is not None else None
    return ReasoningChoice(
        enabled=True if thinking.type == "enabled" else None,
        effort=HIGHEST_EFFORTS.get(effort, effort) if effort else None,
        budget=thinking.budget_tokens,
    )


def _system(body: PromptBody) -> Iterator[Turn]:
    if body.system is None:
        return
    blocks = [TextBlock(type="text", text=body.system)] if isinstance(body.system, str) else body.system
    placed = [(f"system.{index}", block) for index, block in enumerate(blocks)]
    if texts := without_billing_header([_text(block, path) for path, block in placed]):
        yield Turn("system", "\n".join(texts))


def _turns(messages: Sequence[Message]) -> Iterator[Turn]:
    """Yield the turns of messages: what tools returned is a turn for each of them."""
    placed = [(message.role, block) for index, message in enumerate(messages) for block in _blocks(message, index)]
    for role, group in groupby(placed, key=lambda pair: pair[0]):
        blocks = [block for _, block in group]
        for path, block in blocks:
            if not isinstance(block, READ[role]):
                raise _unread(path, block, role)
        if role == "assistant":
            yield _assistant_turn(blocks)
        elif role == "system":
            yield Turn("system", _joined(blocks))
        else:
            yield from _user_turns(blocks)


def _blocks(message: Message, index: int) -> list[PlacedBlock]:
    """Return a message's blocks; an empty message has an empty text, so that it is a turn."""
    path = f"messages.{index}.content"
    if isinstance(message.content, str):
        return [(path, TextBlock(type="text", text=message.content))]
    placed: list[PlacedBlock] = [(f"{path}.{number}", block) for number, block in enumerate(message.content)]
    return placed or [(path, TextBlock(type="text", text=""))]


def _user_turns(blocks: Iterable[PlacedBlock]) -> Iterator[Turn]:
    for is_result, group in groupby(blocks, key=lambda pair: isinstance(pair[1], ToolResultBlock)):
        if is_result:
            yield from (_result(block, path) for path, block in group if isinstance(block, ToolResultBlock))
        else:
            yield Turn("user", _joined(group))


def _assistant_turn(blocks: Sequence[PlacedBlock]) -> Turn:
    calls = [block for _, block in blocks if isinstance(block, ToolUseBlock)]
    thoughts = [block.thinking for _, block in blocks if isinstance(block, ThinkingBlock)]
    texts = any(isinstance(block, TextBlock) for _, block in blocks)
    return Turn(
        "assistant",
        content=_joined(blocks) if texts or not calls else None,
        reasoning="\n".join(thoughts) or None,
        tool_calls=tuple(ToolCall(c.id, c.name, json.dumps(c.input, ensure_ascii=False)) for c in calls),
    )


def _result(block: ToolResultBlock, path: str) -> Turn:
    content = block.content or ""
    if not isinstance(content, str):
        parts = [_text(part, f"{path}.content.{number}") for number, part in enumerate(content)]
        content = "\n".join(parts)
    return Turn("tool", FAILED + content if block.is_error else content, tool_call_id=block.tool_use_id)


def _joined(blocks: Iterable[PlacedBlock]) -> str:
    return "\n".join(block.text for _, block in blocks if isinstance(block, TextBlock))


def _text(block: TextBlock | ToolReferenceBlock | OtherBlock, path: str) -> str:
    if isinstance(block, ToolReferenceBlock):
        return f"The tool {block.tool_name} can be called now."  # as it could before: all tools are shown
    if not isinstance(block, TextBlock):
        raise _unread(path, block)
    return block.text


def _unread(path: str, block: AnyBlock, role: str = "") -> RequestError:
    """Make the error for a block that cannot be read, or not in a message of that role."""
    known = not isinstance(block, OtherBlock)
    reason = f"a message of role '{role}' cannot have" if known else "is not supported by this server"
    return RequestError(
        f"'{path}' is a block of type {block.type[:64]!r}, which {reason}.",
        param=path,
        code=None if known else "unsupported_parameter",
    )


def _check_calls(turns: Sequence[Turn]) -> None:
    """Check that each call is answered by the message after it, and that nothing else is.

    Raises:
        RequestError: as in Anthropic's API.
    """
    open_calls: dict[str, None] = {}
    for turn in turns:
        if turn.role == "tool":
            if turn.tool_call_id not in open_calls:
                message = f"A 'tool_result' is for {turn.tool_call_id!r}, which is no 'tool_use' of the message before."
                raise RequestError(message, param="messages")
            del open_calls[turn.tool_call_id]
            continue
        if turn.role == "system":  # which may stand anywhere, and is told behind the results
            continue
        if open_calls:
            break
        open_calls = dict.fromkeys(call.id for call in turn.tool_calls)
    if open_calls:
        missing = ", ".join(repr(call) for call in list(open_calls)[:8])
        message = f"Each 'tool_use' needs its 'tool_result' in the next message; missing are those of {missing}."
        raise RequestError(message, param="messages")


logger = logging.getLogger("cede.web")

# It looks like `x-anthropic-billing-header: cc_version=2.1.37.fbe; cc_entrypoint=cli; cch=8bd3d;`.
_HEADER = re.compile(r"x-anthropic-billing-header:[^\n]*(?:\n|\Z)")


def without_billing_header(system: list[str]) -> list[str]:
    """Return the texts of a system prompt without the line that Claude Code puts before it, which is not for the model.

    Its last field is another one with each request.  A prompt's KV is found again by what it begins with, so with this
    line in it nothing of a conversation would ever be found.  It is left out: in this form alone, and at the very
    beginning alone.  A text that consists of it alone is left out whole.
    """
    if not system or not (found := _HEADER.match(system[0])):
        return system
    logger.debug("left out of a system prompt: %s", literal(found[0]))
    rest = system[0][found.end() :]
    return [rest, *system[1:]] if rest else system[1:]
