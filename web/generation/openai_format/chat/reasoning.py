"""Settings of the model's thinking, out of the many fields in which clients write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.chat.conversation import ReasoningChoice
from runtime.errors import RequestError

if TYPE_CHECKING:
    from web.generation.openai_format.chat.schema import ChatBody

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
