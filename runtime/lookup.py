"""Prompt lookup: what followed the last few tokens when they were seen before is proposed to follow them again.

No model and no device: an index of the sequence's n-grams that grows with it (Saxena, "Prompt Lookup Decoding", 2023).
It pays where the output repeats the prompt or itself: edits of code, summaries, quotations, loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST, SHORTEST = 4, 2  # tokens of an n-gram; a single one says too little about the next


class PromptLookup:
    """One sequence, prompt and output, and where each of its n-grams was followed by something last."""

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._after: dict[tuple[int, ...], int] = {}  # n-gram -> the position after its last occurrence but the newest

    def __len__(self) -> int:
        """Tokens read."""
        return len(self._tokens)

    def extend(self, token_ids: Iterable[int]) -> None:
        """Read on.  Each token costs as many dictionary entries as there are lengths of n-grams."""
        for token_id in token_ids:
            end = len(self._tokens)
            for ngram in self._suffixes():
                self._after[ngram] = end
            self._tokens.append(token_id)

    def propose(self, most: int) -> list[int]:
        """At most so many tokens, after the longest of the last n-grams that was seen before; none if none was.

        A copy that reaches the end of what is known goes on with itself, so a loop is proposed for as long as wanted.
        """
        for ngram in self._suffixes():
            start = self._after.get(ngram)
            if start is not None:
                period = len(self._tokens) - start
                return [self._tokens[start + i % period] for i in range(most)]
        return []

    def _suffixes(self) -> list[tuple[int, ...]]:
        """The last n-grams, the longest first."""
        known = len(self._tokens)
        return [tuple(self._tokens[-n:]) for n in range(min(LONGEST, known), SHORTEST - 1, -1)]
