"""Outputs of a prompt besides KV, while it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.core.generation import PromptScored
from runtime.step.prompt_rows.pooled import PooledState
from runtime.step.prompt_rows.wanted import Pooling

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Sequence

    from actors.core.commands import Chunk
    from runtime.step.prompt_rows.wanted import PromptOutputs


PIECE = 32
"""Tokens of one event, at most: whoever reads it makes JSON of it while others wait."""


class PromptReading:
    """Gathers it from the chunks: scores are emitted as they come, states are pooled until the end.

    A prompt that is read twice, because what was cached of it failed, is pooled from its second reading alone, and
    each of its tokens is told once.

    Args:
        index: of the generation.
        prompt: token ids.
        outputs: what is wanted.
        emit: takes the scores; never blocks.

    Attributes:
        outputs: the same.
    """

    def __init__(
        self, index: int, prompt: Sequence[int], outputs: PromptOutputs, emit: Callable[[PromptScored], None]
    ) -> None:
        self.outputs = outputs
        self._index = index
        self._prompt = prompt
        self._emit = emit
        self._told = 0  # tokens whose score is out
        self.begin()

    def begin(self) -> None:
        """Begin to read, from the first row on."""
        self._pooled = None if self.outputs.pooling is None else PooledState(self.outputs.pooling)
        self._scored = 1  # tokens with a score that this reading has, the first, which has none, included

    def add(self, chunk: Chunk) -> None:
        """Take what a chunk gave."""
        if self._pooled is not None:
            self._pooled.add(chunk.given)
        if self.outputs.alternatives is not None:
            self._add_scores(chunk)

    def _add_scores(self, chunk: Chunk) -> None:
        scores = chunk.given.scores
        first, self._scored = self._scored, self._scored + len(scores)
        scored = [(0, None), *enumerate(scores, start=first)] if self._told == 0 else enumerate(scores, start=first)
        new = tuple((self._prompt[i], score) for i, score in scored if i >= self._told)
        self._told += len(new)
        for start in range(0, len(new), PIECE):
            self._emit(PromptScored(self._index, new[start : start + PIECE]))

    def end(self) -> array[float] | None:
        """Return the pooled vector, if one is wanted, once the whole prompt was read."""
        if self._pooled is None:
            return None
        rows = len(self._prompt) if self.outputs.pooling is Pooling.MEAN else 1
        assert self._pooled.rows == rows, f"{self._pooled.rows} rows were pooled of {rows}"
        return self._pooled.vector()
