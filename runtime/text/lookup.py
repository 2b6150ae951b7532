"""Prompt lookup: what followed the last few tokens when they were seen before is proposed to follow them again.

It takes no model, no device and no index (Saxena, "Prompt Lookup Decoding", 2023): each lookup compares the whole
sequence, packed, with its last tokens.  An index answers ten times as fast, but making one of a long prompt stops the
event loop, and with it everybody's tokens, for as long as two thousand lookups (bench/LOG.md).  It pays where the
output repeats the prompt or itself: edits of code, summaries, quotations, loops.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_NGRAM, MIN_NGRAM = 4, 2  # tokens; a single one says too little about the next


class PromptLookup:
    """Looks drafts up in one sequence, prompt and output."""

    def __init__(self) -> None:
        self._tokens = array("i")

    def __len__(self) -> int:
        """Return the number of tokens read."""
        return len(self._tokens)

    def extend(self, token_ids: Sequence[int]) -> None:
        """Add tokens to the end of the sequence."""
        self._tokens += array("i", token_ids)  # in half the time of `array.extend`

    def propose(self, max_tokens: int) -> list[int]:
        """Return what followed the longest of the last n-grams that was seen before; nothing if none was.

        Of several places the newest counts.  A copy that reaches the end of the sequence goes on with itself, so a loop
        is proposed for as long as wanted.  The time it takes does not depend on what the tokens are.
        """
        known = np.frombuffer(self._tokens, np.intc)
        alike = np.ones(len(known), bool)  # at each place, whether the n tokens from there on are the last n
        after = None
        for n in range(1, min(MAX_NGRAM, len(known) - 1) + 1):
            alike = alike[1:] & (known[:-n] == known[-n])
            newest = alike.tobytes().rfind(1)
            if newest < 0:
                break
            if n >= MIN_NGRAM:
                after = newest + n
        if after is None:
            return []
        period = len(known) - after
        return [self._tokens[after + i % period] for i in range(max_tokens)]
