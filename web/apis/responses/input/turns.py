"""The items of an input as the turns of a conversation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.chat.conversation import ToolCall, Turn
from runtime.errors import RequestError
from web.apis.responses.input.items import (
    CustomCallItem,
    CustomOutputItem,
    FunctionCallItem,
    FunctionOutputItem,
    MessageItem,
    ReasoningItem,
)
from web.apis.responses.input.tools import shown_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from web.apis.responses.input.items import AnyItem, Content, ContentPart

TEXT_PARTS = frozenset({"input_text", "output_text", "text", "reasoning_text", "summary_text", "refusal"})
"""Types of the parts whose text is all that there is to them."""


def turns_of(items: Sequence[AnyItem], path: str = "input") -> list[Turn]:
    """Return the turns that items stand for.

    An answer is one turn, though it is several items: thoughts, a text, and calls, in this order.

    Args:
        items: with no references left among them.
        path: of the items in the body, for errors.

    Raises:
        RequestError: an item, or a part of one, is of a kind that cede does not know.
    """
    turns: list[Turn] = []
    for number, item in enumerate(items):
        where = f"{path}.{number}"
        match item:
            case MessageItem(role="assistant"):
                answer = _answer(turns, has_place=lambda turn: turn.content is None and not turn.tool_calls)
                turns.append(replace(answer, content=_text(item.content, f"{where}.content")))
            case MessageItem(role="user"):
                turns.append(Turn("user", _text(item.content, f"{where}.content")))
            case MessageItem():
                turns.append(Turn("system", _text(item.content, f"{where}.content")))
            case ReasoningItem():
                answer = _answer(turns, has_place=lambda turn: turn.content is None and not turn.tool_calls)
                thoughts = (answer.reasoning or "") + _thoughts(item, where)
                turns.append(replace(answer, reasoning=thoughts or None))
            case FunctionCallItem() | CustomCallItem():
                arguments = item.arguments if isinstance(item, FunctionCallItem) else item.input
                answer = _answer(turns, has_place=lambda _: True)
                call = ToolCall(item.call_id, shown_name(item.namespace, item.name), arguments)
                turns.append(replace(answer, tool_calls=(*answer.tool_calls, call)))
            case FunctionOutputItem() | CustomOutputItem():
                output = _text(item.output, f"{where}.output")
                name = _name_of(item.call_id, turns) or (item.name and shown_name(item.namespace, item.name))
                turns.append(Turn("tool", output, tool_call_id=item.call_id, name=name))
            case _:
                raise RequestError(
                    f"Items of type '{item.type}' are not supported by this server.",
                    param=f"{where}.type",
                    code="unsupported_parameter",
                )
    return [turn for turn in turns if turn != Turn("assistant")]


def _answer(turns: list[Turn], has_place: Callable[[Turn], bool]) -> Turn:
    """Take the last turn from `turns` if it is an answer that has a place for more, or else return an empty answer."""
    if turns and turns[-1].role == "assistant" and has_place(turns[-1]):
        return turns.pop()
    return Turn("assistant")


def _name_of(call_id: str, turns: Iterable[Turn]) -> str | None:
    """Return the name of the tool that was called under an id; templates of some models want it beside the output."""
    calls = (call for turn in turns for call in turn.tool_calls)
    return next((call.name for call in calls if call.id == call_id), None)


def _text(content: Content, path: str) -> str:
    return content if isinstance(content, str) else "\n".join(_texts(content, path))


def _thoughts(item: ReasoningItem, path: str) -> str:
    """Return what was thought; its summary where there is no more, as in the items of other servers."""
    if item.content:
        return "\n".join(_texts(item.content, f"{path}.content"))
    return "\n".join(_texts(item.summary or [], f"{path}.summary"))


def _texts(parts: Sequence[ContentPart], path: str) -> list[str]:
    """Return the texts of parts.

    Raises:
        RequestError: one is no text; no model here reads images, audio and files.
    """
    texts = []
    for number, part in enumerate(parts):
        if part.type not in TEXT_PARTS:
            raise RequestError(
                f"Parts of type '{part.type}' are not supported by this server.",
                param=f"{path}.{number}.type",
                code="unsupported_parameter",
            )
        text = part.refusal if part.type == "refusal" else part.text
        if text is None:
            raise RequestError(
                f"Missing required parameter: '{path}.{number}.text'.",
                param=f"{path}.{number}.text",
                code="missing_required_parameter",
            )
        texts.append(text)
    return texts
