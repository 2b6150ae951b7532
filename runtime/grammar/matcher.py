"""Follows one output through its grammar."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from runtime.errors import GrammarFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llguidance import LLMatcher


class Matcher:
    """State of one output in its grammar.

    All questions may look ahead, past tokens that the output does not have yet, as those that were drafted.  What was
    looked at is taken back only when another question or `accept` wants the matcher elsewhere, so that a run of drafts
    costs one step for each.  Masks are computed on other threads, so there is a lock; it is free unless a step failed.

    Args:
        template: of the grammar, at its beginning; it is copied at the first question, on whatever thread asks it.
        mask_bytes: of a mask.

    Raises:
        GrammarFailed: from every method, if the library gave up: a limit was met, or a token was not allowed.

    Attributes:
        holds_text: it says what the whole output is, and so when it may end.
        is_free: whether anything may follow from here on.
    """

    holds_text = True
    is_free = False

    def __init__(self, template: LLMatcher, mask_bytes: int) -> None:
        self._template = template
        self._mask_bytes = mask_bytes
        self._own: LLMatcher | None = None
        self._ahead: list[int] = []  # tokens that the library has taken, beyond the output
        self._lock = threading.Lock()

    def accept(self, token_id: int) -> bool:
        """Take the output's next token; return whether nothing but an end may follow."""
        with self._lock:
            own = self._go_to((token_id,))
            complete = own.is_stopped()
            _check(own)
            self._ahead.clear()
            return complete

    def mask_after(self, token_ids: Sequence[int]) -> bytes:
        """Return which tokens may follow these, as `TokenMask.take`."""
        with self._lock:
            own = self._go_to(token_ids)
            bits = own.compute_bitmask()
            _check(own)
            assert len(bits) >= self._mask_bytes, "a mask is shorter than the vocabulary"
            return bits[: self._mask_bytes]

    def is_complete_after(self, token_ids: Sequence[int] = ()) -> bool:
        """Return whether nothing but an end may follow these."""
        with self._lock:
            own = self._go_to(token_ids)
            complete = own.is_stopped()
            _check(own)
            return complete

    def count_valid(self, token_ids: Sequence[int]) -> int:
        """Return how many of these may follow, from the first on."""
        with self._lock:
            own = self._go_to(())
            valid = own.validate_tokens(list(token_ids))
            _check(own)
            return valid

    def forced(self) -> list[int]:
        """Return tokens that spell the only text which may follow; none where there is a choice."""
        with self._lock:
            own = self._go_to(())
            tokens = own.compute_ff_tokens()
            valid = own.validate_tokens(tokens) if tokens else 0
            _check(own)
            return tokens[:valid]

    def _go_to(self, ahead: Sequence[int]) -> LLMatcher:
        """Bring the library's matcher to where it has taken the output and these; whoever uses it checks it then."""
        if self._own is None:
            self._own = self._template.deep_copy()
        own, common = self._own, 0
        if self._ahead:
            while common < min(len(ahead), len(self._ahead)) and ahead[common] == self._ahead[common]:
                common += 1
            if len(self._ahead) > common:
                own.rollback(len(self._ahead) - common)
                del self._ahead[common:]
        for token_id in ahead[common:]:
            if not own.consume_token(token_id):
                _check(own)
            self._ahead.append(token_id)
        return own


def _check(own: LLMatcher) -> None:
    if own.is_error():
        raise GrammarFailed(f"the output can no longer be held to its grammar: {first_line(own.get_error())}")


def first_line(error: str) -> str:
    """Return what the library says first of an error; the rest is its state."""
    return error.strip().partition("\n")[0]
