"""Traits of a chat template: what it reads of a conversation, found by rendering small ones.

Templates differ in more than their looks: some print a call's arguments with `tojson` and others want them as a string,
some write calls only where the content is null, some raise.  So each is asked, once, when its model is loaded.
"""

from __future__ import annotations

import enum
import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from runtime.errors import RequestError

if TYPE_CHECKING:
    from runtime.chat.template import ChatTemplate

Message = dict[str, Any]

# Words that no template has in itself.
_TOOL = "zqtool"
_KEY = "zqkey"
_VALUE = "zqvalue"
_RESULT = "zqresult"
_THOUGHT = "zqthought"
_SYSTEM = "zqsystem"

_USER: Message = {"role": "user", "content": "Hello"}
_PARAMETERS = {"type": "object", "properties": {_KEY: {"type": "string", "description": "A word."}}}
_FUNCTION = {"name": _TOOL, "description": "Does something.", "parameters": _PARAMETERS}
_TOOLS: list[Message] = [{"type": "function", "function": _FUNCTION}]
_REASONING_FIELDS = ("reasoning_content", "thinking", "reasoning")

ANSWERS_BETWEEN = ("", "OK.")
"""What an answer says that stands where a template wants one: nothing, if the template takes that."""

CONTENT_ABSENT, CONTENT_EMPTY, CONTENT_NULL = range(3)


class CallIds(enum.Enum):
    """Form that a template wants the ids of calls to have."""

    ANY = enum.auto()
    SHORT = enum.auto()  # nine letters and digits (Mistral)
    NAMED = enum.auto()  # `functions.f:0`: they alone say what is called, and count all calls (Kimi K2)


@dataclass(frozen=True, slots=True)
class CallTraits:
    """Form in which a template takes the calls of earlier turns.

    Attributes:
        arguments_as_text: a call's arguments are to be a JSON string, and not an object.
        content: how a turn without text is to say so: `CONTENT_ABSENT`, `CONTENT_EMPTY` or `CONTENT_NULL`.
        ids: what ids have to look like.
        takes_text: arguments that are no object may be given as the text that they are.
    """

    arguments_as_text: bool = False
    content: int = CONTENT_ABSENT
    ids: CallIds = CallIds.ANY
    takes_text: bool = True


@dataclass(frozen=True, slots=True)
class TurnOrder:
    """Orders of turns that a template takes and shows; what it does not is arranged by `turns`.

    Attributes:
        systems: several system turns at the beginning.
        late_system: a system turn behind others.
        system_alone: nothing but a system turn.
        users: two of the user's in a row.
        answers: two of the assistant's in a row.
        answer_first: a chat that the assistant begins.
        without_user: a chat in which the user says nothing.
        behind_results: what an answer has to say between a tool's result and the user's turn; None where none has to
            stand there.
    """

    systems: bool = True
    late_system: bool = True
    system_alone: bool = True
    users: bool = True
    answers: bool = True
    answer_first: bool = True
    without_user: bool = True
    behind_results: str | None = None


@dataclass(frozen=True, slots=True)
class TemplateTraits:
    """Traits of a template: what it reads.

    Attributes:
        system: it accepts a system turn.
        tools: it shows the tools that it is given.
        tools_in_system: it shows those that a system turn has in its `tools`, as JSON.
        calls: how it takes earlier calls and their results; None where it does not show them.
        reasoning_field: of an assistant's turn, for what was thought; None where it reads none.
        order: of turns.
    """

    system: bool = True
    tools: bool = False
    tools_in_system: bool = False
    calls: CallTraits | None = None
    reasoning_field: str | None = None
    order: TurnOrder = TurnOrder()

    @property
    def shows_tools(self) -> bool:
        """Return whether it shows tools in some way."""
        return self.tools or self.tools_in_system


_IDS = {CallIds.ANY: "call_0123456789abcdef", CallIds.SHORT: "abcdefghi", CallIds.NAMED: f"functions.{_TOOL}:0"}
"""An id of each kind."""


def traits_of(template: ChatTemplate) -> TemplateTraits:
    """Ask a template what it reads."""
    system: Message = {"role": "system", "content": _SYSTEM}
    calls = _call_traits(template)
    return TemplateTraits(
        system=_SYSTEM in _rendered(template, [system, _USER]),
        tools=_TOOL in _rendered(template, [_USER], tools=_TOOLS),
        tools_in_system=_TOOL in _rendered(template, [{**system, "tools": _TOOL}, _USER]),
        calls=calls,
        reasoning_field=_reasoning_field(template, calls),
        order=_order(template, calls),
    )


def _order(template: ChatTemplate, calls: CallTraits | None) -> TurnOrder:
    def shown(*roles: str) -> bool:
        said = [{"role": role, "content": f"zq{role}{number}"} for number, role in enumerate(roles)]
        text = _rendered(template, said)
        return all(message["content"] in text for message in said)

    return TurnOrder(
        systems=shown("system", "system", "user"),
        late_system=shown("user", "system", "assistant", "user") and shown("user", "assistant", "system", "user"),
        system_alone=shown("system"),
        users=shown("user", "user", "assistant", "user"),
        answers=shown("user", "assistant", "assistant", "user"),
        answer_first=shown("assistant", "user"),
        without_user=shown("assistant"),
        behind_results=None if calls is None else _behind_results(template, calls),
    )


def _behind_results(template: ChatTemplate, calls: CallTraits) -> str | None:
    last: Message = {"role": "user", "content": _VALUE * 2}
    for words in (None, *ANSWERS_BETWEEN):
        between = [] if words is None else [{"role": "assistant", "content": words}]
        if _VALUE * 2 in _rendered(template, [_USER, *_exchange(calls), *between, last], tools=_TOOLS):
            return words
    return None


def _call_traits(template: ChatTemplate) -> CallTraits | None:
    for ids, as_text, content in itertools.product(CallIds, (False, True), range(3)):
        traits = CallTraits(as_text, content, ids)
        text = _rendered(template, [_USER, *_exchange(traits)], tools=_TOOLS)
        told = text.partition("Hello")[2] or text
        if all(word in told for word in (_TOOL, _KEY, _VALUE, _RESULT)) and f"'{_KEY}'" not in told:
            broken = _rendered(template, [_USER, *_exchange(replace(traits, arguments_as_text=True))], tools=_TOOLS)
            return traits if _VALUE in broken else replace(traits, takes_text=False)
    return None


def _reasoning_field(template: ChatTemplate, calls: CallTraits | None) -> str | None:
    for name in _REASONING_FIELDS:
        if calls is not None:
            called, result = _exchange(calls)
            if _THOUGHT in _rendered(template, [_USER, {**called, name: _THOUGHT}, result], tools=_TOOLS):
                return name
        if _THOUGHT in _rendered(template, [_USER, {"role": "assistant", "content": "Yes", name: _THOUGHT}]):
            return name
    return None


def _exchange(traits: CallTraits) -> tuple[Message, Message]:
    """Return a call and its result, as messages."""
    call_id = _IDS[traits.ids]
    arguments = f'{{"{_KEY}": "{_VALUE}"}}' if traits.arguments_as_text else {_KEY: _VALUE}
    call = {"id": call_id, "type": "function", "function": {"name": _TOOL, "arguments": arguments}}
    called: Message = {"role": "assistant", "tool_calls": [call], **silent(traits.content)}
    return called, {"role": "tool", "content": _RESULT, "tool_call_id": call_id, "name": _TOOL}


def silent(content: int) -> Message:
    """Return the fields of a turn without text, as a template wants them."""
    return {} if content == CONTENT_ABSENT else {"content": "" if content == CONTENT_EMPTY else None}


def _rendered(template: ChatTemplate, messages: list[Message], tools: list[Message] | None = None) -> str:
    """Render a chat; what the template refuses shows nothing."""
    try:
        return template.render(messages, tools=tools)
    except RequestError:
        return ""
