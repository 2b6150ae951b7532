"""Reasoning before an answer: where it stands in the text, and how a client chooses it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from runtime.chat.parts import CallEnd, CallStart, ReasoningPart, TextPart
from runtime.chat.reading.source import WHITESPACE, Source
from runtime.chat.reading.text import Markers, text_until
from runtime.errors import RequestError
from runtime.grammar.grammar import ThoughtBudget

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.chat.conversation import Conversation, ReasoningChoice
    from runtime.chat.lark import Lark
    from runtime.chat.parts import Part
    from runtime.chat.reading.source import Reading
    from runtime.chat.template import ChatTemplate

SWITCHES = ("enable_thinking", "thinking")
"""Variables of templates that turn reasoning on and off."""

EFFORT = "reasoning_effort"
"""The variable of templates that says how much to think."""

_NO_EFFORT = "none"

_PIECE = 4096
"""Characters that are tried as calls at once."""


class _Trial:
    """A reading of what may be calls and nothing else.

    Attributes:
        parts: that were read.
        failed: there is something else.
        whole: characters up to the end of the last call before that.
    """

    def __init__(self, read: Callable[[Source], Reading[None]]) -> None:
        self.parts: list[Part] = []
        self.failed = False
        self.whole = 0
        self._source = Source()
        self._reading = read(self._source)
        self._open = False

    def push(self, text: str) -> None:
        """Read more text, up to what is no call."""
        self._source.push(text)
        self._run()

    def is_whole(self, *, cut: bool) -> bool:
        """Read to the end; return whether all was whole calls."""
        self._source.ended = True
        self._source.cut = cut
        self._run()
        return bool(self.parts) and not self.failed and not self._open

    def _run(self) -> None:
        for part in self._reading:
            if part is None:
                return
            self.parts.append(part)
            # A call that begins within another shows that one to be broken.
            self.failed = isinstance(part, TextPart) or (self._open and isinstance(part, CallStart))
            if self.failed:
                return
            self._open = not isinstance(part, CallEnd)
            if not self._open:
                self.whole = self._source.position


@dataclass(frozen=True, slots=True)
class Thought:
    """Markers around what a model thinks.

    Attributes:
        opening: stands before it.
        closing: stands behind it.
        implied: an answer begins with thought even if neither the prompt nor the model opens it.
        switch: the template's variable that turns it on and off; None where it has none.
        effort: the template has a variable for how much.
        framed: the format of the whole answer marks it, and reads it (harmony), wherever it stands.
        label: a word behind the opening marker that belongs to it (the name of Gemma's channel).
    """

    opening: str = "<think>"
    closing: str = "</think>"
    implied: bool = False
    switch: str | None = None
    effort: bool = False
    framed: bool = False
    label: str = ""

    @property
    def markers(self) -> tuple[str, ...]:
        """The markers, which may be special tokens."""
        return () if self.framed else (self.opening, self.closing)

    def begun(self, prompt: str) -> bool:
        """Return whether an answer to `prompt` begins with thought: the prompt opens it, or nothing does."""
        end = prompt.rstrip(WHITESPACE)
        return end.endswith(self.opening + self.label) or (self.implied and not end.endswith(self.closing))

    def read(
        self, source: Source, calls: Callable[[Source], Reading[None]], call: str, *, begun: bool
    ) -> Reading[None]:
        """Read what is thought at the beginning of an answer, if anything is.

        Some models call without an end to their thought.  So a call in it is held back: one that nothing follows is
        made, and any other was thought.

        Args:
            source: at the beginning.
            calls: reads an answer that calls.
            call: the marker that begins a call; empty where there can be none.
            begun: as `begun` says of the prompt.
        """
        yield from source.skip_spaces(source.spaces)
        opened = yield from source.accept(self.opening + self.label)
        if not begun and not opened:
            return
        source.after_marker = True
        markers = Markers(self.closing, call) if call else Markers(self.closing)
        thought_to = 0
        while (found := (yield from text_until(source, markers, ReasoningPart))) is not None:
            if found.marker == self.closing:
                return
            if source.position > thought_to:
                tried = yield from self._read_calls(source, calls, call)
                if tried is None:
                    return
                thought_to = tried
            source.after_marker = False
            yield ReasoningPart(found.spaces + call)

    def _read_calls(self, source: Source, read: Callable[[Source], Reading[None]], call: str) -> Reading[int | None]:
        """Read calls up to the end of the answer, from behind the first marker on.

        Returns:
            None where there is nothing else.  If there is, nothing was read, and this is the position up to which a
            call begins in vain, for what follows it is the same.
        """
        trial, taken, last = _Trial(read), [""], ""
        begin = source.position - len(call)
        trial.push(call)
        while not trial.failed and self.closing not in last:
            if not (yield from source.more()):
                if trial.is_whole(cut=source.cut):
                    yield from trial.parts
                    return None
                break
            taken.append(source.take(min(source.at + _PIECE, len(source.text))))
            last = last[-len(self.closing) :] + taken[-1]
            trial.push(taken[-1])
        closing = last.find(self.closing)
        in_vain = source.position - len(last) + closing if closing >= 0 else begin + trial.whole
        source.unread("".join(taken))
        return in_vain

    def budget(self, tokens: int | None, *, begun: bool) -> ThoughtBudget | None:
        """Return what bounds it to so many tokens; None for no bound."""
        if tokens is None:
            return None
        return ThoughtBudget(tokens, self.opening + self.label, self.closing, begun=begun, again=self.framed)

    def grammar(self, lark: Lark, *, begun: bool) -> str:
        """Return an expression for thought at the beginning of an answer."""
        inside = lark.until(self.closing)
        if begun:
            return inside
        lark.never(self.opening)
        return f"({lark.spaced_marker(self.opening, self.label)} {inside})?"


MARKS = (
    Thought("<think>", "</think>"),
    Thought("[THINK]", "[/THINK]"),
    Thought("<seed:think>", "</seed:think>"),
    Thought("<|channel>", "<channel|>", label="thought"),
)
"""The markers of the families that have such."""


def thought_of(template: ChatTemplate, framed: Thought | None = None) -> Thought | None:
    """Return how a model thinks, by its template; None where that knows no such thing.

    Args:
        template: the model's.
        framed: how the format of its answers marks what is thought; None where it does not.
    """
    if framed is not None:
        return replace(framed, effort=EFFORT in template.variables)
    for marks in MARKS:
        if marks.closing in template.source:
            switch = next((name for name in SWITCHES if name in template.variables), None)
            implied = marks.opening not in template.source
            return replace(marks, implied=implied, switch=switch, effort=EFFORT in template.variables)
    return None


def reasoning_variables(choice: ReasoningChoice, thought: Thought | None) -> dict[str, Any]:
    """Return the variables for a template that stand for a client's choice.

    An effort is a wish: many clients always send one, so a template that knows none gets none.

    Args:
        choice: the client's.
        thought: of the model; None if it does not think.

    Raises:
        RequestError: the model does not think.
    """
    variables: dict[str, Any] = {}
    enabled = False if choice.effort == _NO_EFFORT else choice.enabled
    if thought is None:
        if enabled or choice.budget is not None:
            raise RequestError("This model does not reason before it answers.", param="reasoning_effort")
        return variables
    if enabled is not None and thought.switch is not None:
        variables[thought.switch] = enabled
    if choice.effort not in (None, _NO_EFFORT) and thought.effort:
        variables[EFFORT] = choice.effort
    return variables


def closed_if_off(prompt: str, conversation: Conversation, thought: Thought | None) -> str:
    """Return a prompt with an empty thought behind it, where none is wanted and the template has no switch for it.

    Raises:
        RequestError: the model cannot answer without thought.
    """
    choice = conversation.reasoning
    off = choice.enabled is False or choice.effort == _NO_EFFORT
    if thought is None or not off or not conversation.add_generation_prompt or conversation.continue_final:
        return prompt
    if thought.framed:
        if choice.off_is_wish:
            return prompt
        raise RequestError("This model always reasons; it can be asked for less effort.", param="reasoning_effort")
    end = prompt.rstrip(WHITESPACE)
    opened = end.endswith(thought.opening + thought.label)
    if end.endswith(thought.closing) or (thought.switch is not None and not opened):
        return prompt
    opening = "" if opened else thought.opening + thought.label
    return f"{prompt if opening else end}{opening}\n\n{thought.closing}\n\n"
