"""Constraint of one output by a grammar, position by position."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.errors import GrammarFailed
from runtime.grammar.masks import SLOW_SECONDS, Mask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.generating.grammars import OutputMatcher
    from runtime.grammar.worker import MaskComputer


NEWEST_SHARE = 0.125
"""How much the newest mask counts in what is expected of the next."""

LONGEST = 10 * SLOW_SECONDS
"""A mask that took longer counts as one that took so long: more often the thread had to wait for a processor."""


class Constraint:
    """Holds one output to its grammar.

    What a mask takes is expected to be the moving average of those before it, and of the first one that it is slow.

    Args:
        matcher: fresh; nobody else uses it.
        computer: has slow masks computed beside the steps that need them.
    """

    def __init__(self, matcher: OutputMatcher, computer: MaskComputer) -> None:
        self._matcher = matcher
        self._computer = computer
        self._expected = SLOW_SECONDS  # of a mask
        self._masks: dict[tuple[int, ...], Mask] = {}  # by the drafted tokens before them, since the last `accept`

    @property
    def holds_text(self) -> bool:
        """Return whether it says what the whole output is, and so when it may end."""
        return self._matcher.holds_text

    def masks(self, drafted: Sequence[int] = ()) -> tuple[Mask, ...]:
        """Return the mask of the next token, and of those that follow each of the drafted ones; none where any may.

        Each is one and the same, however often it is asked for: a draft is drawn under the mask that verifies it.
        """
        if self._matcher.is_free:
            return ()
        if not drafted:
            return (self._mask(()),)
        return tuple(self._mask(tuple(drafted[:i])) for i in range(len(drafted) + 1))

    def _mask(self, drafted: tuple[int, ...]) -> Mask:
        mask = self._masks.get(drafted)
        if mask is None:
            mask = self._masks[drafted] = Mask(lambda: self._matcher.mask_after(drafted), self._expected)
            self._computer.submit(mask)
        return mask

    def accept(self, token_id: int) -> bool:
        """Take the output's next token; return whether nothing but an end may follow.

        Raises:
            GrammarFailed: it is not allowed, or was drawn under a mask that could not be computed.
        """
        for mask in self._masks.values():
            if mask.error is not None:
                raise GrammarFailed(f"what the grammar allows could not be computed: {mask.error}") from mask.error
            if mask.seconds is not None:
                self._expected += NEWEST_SHARE * (min(mask.seconds, LONGEST) - self._expected)
        is_complete = self._matcher.accept(token_id)
        self._masks.clear()
        return is_complete

    def is_complete(self, drafted: Sequence[int]) -> bool:
        """Return whether nothing but an end may follow the output and these."""
        return self._matcher.is_complete_after(drafted)

    def count_valid(self, token_ids: Sequence[int]) -> int:
        """Return how many of these may follow, from the first on."""
        return self._matcher.count_valid(token_ids)

    def forced(self) -> list[int]:
        """Return tokens that spell the only text which may follow; none where there is a choice."""
        return self._matcher.forced()
