"""Bounds what a model thinks: after so many tokens the closing marker is the only text that may follow.

A grammar cannot: llguidance counts tokens only where it need not look ahead, and a grammar would have to describe all
that follows, too.  Where a thought begins and ends is told from the text of its tokens, so a marker may be a token of
its own or text.  The state is a value, so a look ahead leaves nothing behind.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runtime.errors import GrammarFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from runtime.grammar.grammar import ThoughtBudget
    from runtime.grammar.matcher import Matcher
    from runtime.text.tokenizer import Tokenizer


WORD_BITS = 32
"""Of a mask, which has whole words."""


class _Progress(enum.Enum):
    """Progress of an output.

    Attributes:
        BEFORE: a thought may begin.
        WITHIN: in a thought.
        BEHIND: no thought follows.
    """

    BEFORE = enum.auto()
    WITHIN = enum.auto()
    BEHIND = enum.auto()


@dataclass(frozen=True, slots=True)
class _State:
    """State after the tokens so far.

    Attributes:
        progress: where they have come to.
        left: tokens that may still be thought.
        tail: the last bytes, which may be the beginning of a marker.
        closing: the tokens that have to follow, since the budget is spent.
    """

    progress: _Progress
    left: int
    tail: bytes = b""
    closing: tuple[int, ...] = ()


class CompiledBudget:
    """A budget of thought for one model's outputs; shared by all outputs of a request.

    Args:
        asked: what is to be held.
        tokenizer: the model's.
        vocab_size: logits of a row.

    Attributes:
        first: the state of an output without tokens.
    """

    def __init__(self, asked: ThoughtBudget, tokenizer: Tokenizer, vocab_size: int) -> None:
        self._asked = asked
        self._tokenizer = tokenizer
        self._mask_bytes = -(-vocab_size // WORD_BITS) * WORD_BITS // 8
        self._opening, self._closing = asked.opening.encode(), asked.closing.encode()
        self.first = self._within(asked.tokens, b"") if asked.begun else _State(_Progress.BEFORE, asked.tokens)

    def follow(self, state: _State, token_ids: Iterable[int]) -> _State:
        """Return the state behind some more tokens.

        Raises:
            GrammarFailed: one of them goes on with a thought that has to end.
        """
        for token_id in token_ids:
            state = self._next(state, token_id)
        return state

    def mask(self, state: _State) -> bytes | None:
        """Return the bits of the next token, as `TokenMask.take`."""
        return (1 << state.closing[0]).to_bytes(self._mask_bytes, "little") if state.closing else None

    def _next(self, state: _State, token_id: int) -> _State:
        if state.closing:
            if token_id != state.closing[0]:
                raise GrammarFailed("the output goes on with a thought whose budget is spent")
            rest = state.closing[1:]
            return replace(state, closing=rest) if rest else self._behind(state.left)
        if state.progress is _Progress.BEHIND:
            return state
        text = state.tail + self._tokenizer.token_bytes(token_id)
        if state.progress is _Progress.BEFORE:
            return self._before(text, state.left)
        return self._behind(state.left) if self._closing in text else self._within(state.left - 1, text)

    def _before(self, text: bytes, left: int) -> _State:
        if not self._asked.again:
            text = text.lstrip()
            if not (self._opening.startswith(text) or text.startswith(self._opening)):
                return _State(_Progress.BEHIND, left)
        _, opened, rest = text.partition(self._opening)
        return (
            self._within(left, rest) if opened else _State(_Progress.BEFORE, left, _last(text, len(self._opening) - 1))
        )

    def _within(self, left: int, text: bytes) -> _State:
        """Return the state in a thought; where nothing is left for it, what the model has begun to close is closed."""
        tail = _last(text, len(self._closing) - 1)
        if left > 0:
            return _State(_Progress.WITHIN, left, tail)
        begun = next(i for i in range(len(tail), -1, -1) if tail.endswith(self._closing[:i]))
        return _State(_Progress.WITHIN, 0, closing=self._rest(self._closing[begun:]))

    def _rest(self, rest: bytes) -> tuple[int, ...]:
        """Return the tokens for the rest of a marker: for all of it, if that is a token or if none spell the rest."""
        whole = tuple(self._tokenizer.encode(self._asked.closing, add_special_tokens=False))
        tokens = tuple(self._tokenizer.encode(rest.decode(errors="ignore"), add_special_tokens=False))
        spelled = b"".join(map(self._tokenizer.token_bytes, tokens)) == rest
        return tokens if spelled and len(whole) > 1 else whole

    def _behind(self, left: int) -> _State:
        return _State(_Progress.BEFORE if self._asked.again else _Progress.BEHIND, left)


class BudgetMatcher:
    """Follows one output, within its budget of thought and its grammar: the questions are those of `Matcher`.

    Args:
        budget: what may be thought.
        inner: of the grammar; None where the output may be any text.
    """

    def __init__(self, budget: CompiledBudget, inner: Matcher | None) -> None:
        self._budget = budget
        self._inner = inner
        self._state = budget.first

    @property
    def holds_text(self) -> bool:
        """Return whether there is a grammar, which says what the whole output is."""
        return self._inner is not None

    @property
    def is_free(self) -> bool:
        """Return whether anything may follow from here on."""
        return self._inner is None and self._state.progress is _Progress.BEHIND

    def accept(self, token_id: int) -> bool:
        """Take the output's next token; return whether nothing but an end may follow."""
        self._state = self._budget.follow(self._state, (token_id,))
        return self._inner is not None and self._inner.accept(token_id)

    def mask_after(self, token_ids: Sequence[int]) -> bytes | None:
        """Return which tokens may follow these; None where any may."""
        bits = self._budget.mask(self._budget.follow(self._state, token_ids))
        return bits if bits is not None or self._inner is None else self._inner.mask_after(token_ids)

    def is_complete_after(self, token_ids: Sequence[int] = ()) -> bool:
        """Return whether nothing but an end may follow these."""
        return self._inner is not None and self._inner.is_complete_after(token_ids)

    def count_valid(self, token_ids: Sequence[int]) -> int:
        """Return how many of these may follow, from the first on."""
        state, valid = self._state, 0
        for token_id in token_ids:
            if state.closing and token_id != state.closing[0]:
                break
            state, valid = self._budget.follow(state, (token_id,)), valid + 1
        return valid if self._inner is None else self._inner.count_valid(token_ids[:valid])

    def forced(self) -> list[int]:
        """Return tokens that spell the only text which may follow; none where there is a choice."""
        if self._state.closing:
            return list(self._state.closing)
        return [] if self._inner is None else self._inner.forced()


def _last(text: bytes, count: int) -> bytes:
    return text[max(0, len(text) - count) :]
