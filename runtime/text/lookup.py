"""Prompt lookup: what followed the last few tokens when they were seen before is proposed to follow them again.

No model, no device and no index (Saxena, "Prompt Lookup Decoding", 2023): each lookup compares the whole sequence,
packed, with its last tokens.  An index answers ten times as fast, but making one of a long prompt stops the event loop,
and with it everybody's tokens, for as long as two thousand lookups (bench/LOG.md).
It pays where the output repeats the prompt or itself: edits of code, summaries, quotations, loops.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST, SHORTEST = 4, 2  # tokens of an n-gram; a single one says too little about the next


class PromptLookup:
    """One sequence, prompt and output."""

    def __init__(self) -> None:
        self._tokens = array("i")

    def __len__(self) -> int:
        """Tokens read."""
        return len(self._tokens)

    def extend(self, token_ids: Sequence[int]) -> None:
        """Read on."""
        self._tokens += array("i", token_ids)  # from a sequence in half the time that `extend` takes

    def propose(self, most: int) -> list[int]:
        """At most so many tokens, after the longest of the last n-grams that was seen before; none if none was.

        Of several the newest.  A copy that reaches the end of what is known goes on with itself, so a loop is proposed
        for as long as wanted.  The time it takes does not depend on what the tokens are.
        """
        known = np.frombuffer(self._tokens, np.intc)
        alike = np.ones(len(known), bool)  # at each place, whether the n tokens from there on are the last n
        after = None
        for n in range(1, min(LONGEST, len(known) - 1) + 1):
            alike = alike[1:] & (known[:-n] == known[-n])
            newest = alike.tobytes().rfind(1)
            if newest < 0:
                break
            if n >= SHORTEST:
                after = newest + n
        if after is None:
            return []
        period = len(known) - after
        return [self._tokens[after + i % period] for i in range(most)]
