"""The messages of a chat's body as a conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.chat.conversation import Conversation, ReasoningChoice, ToolCall, Turn
from runtime.errors import RequestError
from web.bodies.strict_model import refuse_unsupported
from web.generation.openai_format.chat.schema import UNSUPPORTED_IN_MESSAGES, RefusalPart, TextPart
from web.generation.openai_format.chat.tools import is_legacy, tools_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runtime.chat.conversation import Role
    from web.generation.openai_format.chat.schema import ChatBody, Message
    from web.generation.openai_format.chat.tool_schemas import MessageToolCall

ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
"""Roles in OpenAI's words, the newer and the older, and in those of chat templates."""


def conversation_of(body: ChatBody) -> Conversation:
    """Return what a chat's body asks of the model.

    Raises:
        RequestError: its fields contradict each other, or ask for what cede does not do.
    """
    if body.continue_final_message and body.add_generation_prompt:
        raise RequestError(
            "'continue_final_message' and 'add_generation_prompt' exclude each other.",
            param="continue_final_message",
        )
    tools, choice = tools_of(body)
    return Conversation(
        turns=list(_turns(body.messages)),
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=body.parallel_tool_calls is not False and not is_legacy(body),
        reasoning=reasoning_of(body),
        variables=_variables(body),
        add_generation_prompt=body.add_generation_prompt is not False,
        continue_final=bool(body.continue_final_message),
    )


def _variables(body: ChatBody) -> dict[str, Any]:
    """Return the variables of the chat template; what a template does not know has no effect."""
    verbosity = {} if body.verbosity is None else {"verbosity": body.verbosity}
    return verbosity | (body.chat_template_kwargs or {})


def _turns(messages: Sequence[Message]) -> Iterator[Turn]:
    called: str | None = None  # the id of the latest call in the older form, which has none of its own
    for index, message in enumerate(messages):
        turn = _turn(message, index, called)
        if message.function_call is not None and turn.tool_calls:  # which others than the assistant have not
            called = turn.tool_calls[-1].id
        yield turn


def _turn(message: Message, index: int, called: str | None) -> Turn:
    """Return a message; `called` is the call that a message of the older role `function` answers."""
    refuse_unsupported(message, UNSUPPORTED_IN_MESSAGES, f"messages.{index}.")
    content, refusal = _texts(message)
    if message.role != "assistant":
        if message.content is None:
            raise RequestError(
                f"Missing required parameter: 'messages.{index}.content'.",
                param=f"messages.{index}.content",
                code="missing_required_parameter",
            )
        answers = message.tool_call_id or (called if message.role == "function" else None)
        return Turn(ROLES[message.role], content, tool_call_id=answers, name=message.name)
    calls = tuple(_calls(message, index))
    text = content if refusal is None else "\n".join(filter(None, (content, refusal)))
    return Turn(
        role="assistant",
        content=None if calls and not text else text or "",
        reasoning=message.reasoning_content or message.reasoning,
        tool_calls=calls,
        name=message.name,
    )


def _texts(message: Message) -> tuple[str | None, str | None]:
    """Return a message's content and refusal, each as one text; None where there is none."""
    if message.content is None or isinstance(message.content, str):
        return message.content, message.refusal
    texts, refusals = [], [] if message.refusal is None else [message.refusal]
    for part in message.content:
        if isinstance(part, RefusalPart):
            refusals.append(part.refusal)
        else:
            texts.append(part.text)
    return "\n".join(texts), "\n".join(refusals) if refusals else None


def text_of(content: str | list[TextPart | RefusalPart]) -> str:
    """Return all of a content as one text."""
    if isinstance(content, str):
        return content
    return "\n".join(part.text if isinstance(part, TextPart) else part.refusal for part in content)


def _calls(message: Message, index: int) -> Iterator[ToolCall]:
    for number, call in enumerate(message.tool_calls or ()):
        yield _call(call, f"call_{index}_{number}", f"messages.{index}.tool_calls.{number}")
    if (older := message.function_call) is not None:
        yield ToolCall(f"call_{index}", older.name, older.arguments or "")


def _call(call: MessageToolCall, id: str, path: str) -> ToolCall:
    """Return a call of an earlier turn; `id` is for one that has none."""
    if call.type == "function" and call.function is not None:
        return ToolCall(call.id or id, call.function.name, call.function.arguments or "")
    if call.type == "custom" and call.custom is not None:
        return ToolCall(call.id or id, call.custom.name, call.custom.input)
    raise RequestError(
        f"Missing required parameter: '{path}.{call.type}'.",
        param=f"{path}.{call.type}",
        code="missing_required_parameter",
    )


# --- thinking, out of the many fields in which clients write how ------------------------------------------------------

NO_EFFORT = "none"
"""OpenAI's effort that asks for no thought at all.  Any other says how much the model should think if it does."""


def reasoning_of(body: ChatBody) -> ReasoningChoice:
    """Return how to think.  What is said twice has to agree; what is not said is up to the model's template.

    Raises:
        RequestError: two fields contradict each other.
    """
    thinking, reasoning = body.thinking, body.reasoning
    effort = _agreed({"reasoning_effort": body.reasoning_effort, "reasoning.effort": reasoning and reasoning.effort})
    budget = _agreed(
        {
            "thinking_budget": body.thinking_budget,
            "thinking.budget_tokens": thinking and thinking.budget_tokens,
            "reasoning.max_tokens": reasoning and reasoning.max_tokens,
        }
    )
    enabled = _agreed(
        {
            "enable_thinking": body.enable_thinking,
            "thinking.type": _THINKING[thinking.type] if thinking else None,
            "reasoning.enabled": reasoning and reasoning.enabled,
            "chat_template_kwargs.enable_thinking": _switch(body),
            "reasoning_effort": False if effort == NO_EFFORT else None,
            "thinking_budget": False if budget == 0 else None,
        }
    )
    return ReasoningChoice(enabled, None if effort == NO_EFFORT else effort, budget or None)


_THINKING = {"enabled": True, "disabled": False, "auto": None}


def _switch(body: ChatBody) -> bool | None:
    """Return the variable by which most templates know whether to think."""
    value = (body.chat_template_kwargs or {}).get("enable_thinking")
    return value if isinstance(value, bool) else None


def _agreed(given: dict[str, Any]) -> Any:  # noqa: ANN401  # of whatever kind the fields are
    """Return the value that fields have in common; None if none of them has any."""
    said = {name: value for name, value in given.items() if value is not None}
    if len(set(said.values())) > 1:
        raise RequestError(f"{' and '.join(map(repr, said))} contradict each other.", param=next(iter(said)))
    return next(iter(said.values()), None)
