"""Turns in the order that a template takes: what it would refuse or drop is merged, or told by another role.

All APIs go through here.  A prompt only ever grows at its end: what comes later never changes what stands before it, or
nothing of a conversation's KV would be found again.  So a late system turn stays in its place, as the user's, and is
not moved into the first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.chat.conversation import Turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.chat.traits import TemplateTraits


def arranged(turns: Sequence[Turn], traits: TemplateTraits, *, continue_final: bool = False) -> list[Turn]:
    """Return turns as a template takes them.

    Args:
        turns: of a conversation.
        traits: of the template.
        continue_final: the last turn is the beginning of the answer, and stays what it is.
    """
    last = turns[-1:] if continue_final else []
    kept = [turn for turn in turns[: len(turns) - len(last)] if not _shows_nothing(turn, traits)]
    told = _with_roles([*kept, *last] or turns, traits)
    begun = _with_user(told, traits)
    return _joined(begun, traits)


def _shows_nothing(turn: Turn, traits: TemplateTraits) -> bool:
    """Return whether a turn only thinks, and the template reads no thoughts: an empty answer would be an example."""
    thinks = turn.role == "assistant" and turn.reasoning is not None and not turn.content and not turn.tool_calls
    return thinks and traits.reasoning_field is None


def _with_roles(turns: Sequence[Turn], traits: TemplateTraits) -> list[Turn]:
    """Return turns whose system turns are where the template takes them, or else are the user's."""
    told: list[Turn] = []
    waiting: list[Turn] = []  # for the results of calls, which come right behind these
    unanswered: set[str | None] = set()
    for turn in turns:
        if turn.role == "system":
            leading = all(earlier.role == "system" for earlier in told)
            kept = traits.system if leading else traits.order.late_system
            place = waiting if unanswered and not kept else told
            place.append(turn if kept else replace(turn, role="user"))
            continue
        if turn.role != "tool":
            told += waiting
            waiting, unanswered = [], {call.id for call in turn.tool_calls}
        told.append(turn)
        unanswered.discard(turn.tool_call_id)
        if not unanswered:
            told += waiting
            waiting = []
    return [*told, *waiting]


def _with_user(turns: list[Turn], traits: TemplateTraits) -> list[Turn]:
    """Return turns among which there is one of the user's, and at their beginning, where the template wants that."""
    order = traits.order
    leading = next((number for number, turn in enumerate(turns) if turn.role != "system"), len(turns))
    if leading == len(turns):
        if turns and not order.system_alone:
            return [*turns[:-1], replace(turns[-1], role="user")]
        return turns
    without = not order.without_user and all(turn.role != "user" for turn in turns)
    if without or (turns[leading].role != "user" and not order.answer_first):
        return [*turns[:leading], Turn("user", ""), *turns[leading:]]
    return turns


def _joined(turns: Sequence[Turn], traits: TemplateTraits) -> list[Turn]:
    """Return turns of which no two follow each other that the template takes as one only."""
    order = traits.order
    single = {"system": not order.systems, "user": not order.users, "assistant": not order.answers}
    joined: list[Turn] = []
    for turn in turns:
        before = joined[-1] if joined else None
        if before is not None and before.role == turn.role and single.get(turn.role, False):
            joined[-1] = _join(before, turn)
            continue
        if before is not None and turn.role == "user" and order.behind_results is not None:
            if before.role == "tool" or before.tool_calls:
                joined.append(Turn("assistant", order.behind_results))
        joined.append(turn)
    return joined


def _join(first: Turn, second: Turn) -> Turn:
    return Turn(
        role=first.role,
        content=_text(first.content, second.content),
        reasoning=_text(first.reasoning, second.reasoning),
        tool_calls=first.tool_calls + second.tool_calls,
        name=first.name if first.name == second.name else None,
    )


def _text(first: str | None, second: str | None) -> str | None:
    texts = [text for text in (first, second) if text is not None]
    return "\n\n".join(filter(None, texts)) if texts else None
