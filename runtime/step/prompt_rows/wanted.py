"""The types of what a prompt gives besides KV: as a request asks for it, as a step does, and as a step gives it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.sampling.tokens import TokenLogprobs


class Pooling(enum.StrEnum):
    """Method by which the states of a prompt's rows become one vector."""

    MEAN = "mean"  # of all rows
    LAST = "last"  # the last row's, the only one that has seen the whole text


class PoolingChoice(enum.StrEnum):
    """Choice of the embeddings that are served, if any: `Pooling`, what the model's files say, or none."""

    AUTO = "auto"
    MEAN = "mean"
    LAST = "last"
    NONE = "none"

    def pooling(self, said: str | None) -> Pooling | None:
        """Return how states are pooled; None for no embeddings.

        Args:
            said: how the model was trained to be pooled, in the words of llama.cpp; None where its files do not say.
                What is no `Pooling`, as `cls`, a causal model cannot have been trained for.
        """
        if self is PoolingChoice.NONE:
            return None
        if self is not PoolingChoice.AUTO:
            return Pooling(self.value)
        return Pooling(said) if said in set(Pooling) else Pooling.MEAN


@dataclass(frozen=True, slots=True)
class PromptOutputs:
    """Outputs that a request wants of each of its prompts besides KV.

    Attributes:
        pooling: how its states become one vector; None for no vector.
        alternatives: how many tokens to name at each position beside the prompt's own, each with its log-probability; 0
            for the prompt's own alone, None for no log-probabilities.
    """

    pooling: Pooling | None = None
    alternatives: int | None = None

    @property
    def needs_all_rows(self) -> bool:
        """Return whether the state of each row is needed, so that no KV that is there can take a row's place."""
        return self.pooling is Pooling.MEAN or self.alternatives is not None

    def of_rows(self, token_ids: Sequence[int], rows: int) -> RowsWanted | None:
        """Return what is wanted of the first `rows` of the tokens that are left to read; None for nothing."""
        is_last = rows == len(token_ids)
        pooling = self.pooling if self.pooling is not Pooling.LAST or is_last else None
        targets = () if self.alternatives is None else tuple(token_ids[1 : rows + 1])
        return RowsWanted(pooling, targets, self.alternatives or 0) if pooling or targets else None


NO_OUTPUTS = PromptOutputs()
"""Nothing but KV is wanted."""


@dataclass(frozen=True, slots=True)
class RowsWanted:
    """Outputs that are wanted of one segment's rows.

    Attributes:
        pooling: `MEAN` for the sum of their states, `LAST` for the state of the last; None for neither.
        targets: the tokens that follow the rows, from the first on: as many as there are rows, or one less at the end
            of a prompt; empty where no log-probabilities are wanted.
        alternatives: as in `PromptOutputs`.
    """

    pooling: Pooling | None = None
    targets: tuple[int, ...] = ()
    alternatives: int = 0


@dataclass(frozen=True, slots=True)
class TokenScore:
    """Score of a prompt's token: how likely it was after those before it.

    Attributes:
        logprobs: its own, and those of the likeliest tokens, under the model's own distribution.
        rank: 1 for the likeliest of all, and one more for each token that was likelier.
    """

    logprobs: TokenLogprobs
    rank: int


@dataclass(frozen=True, slots=True)
class RowsGiven:
    """Outputs of one segment's rows.

    Attributes:
        state: their sum, or the last row's, as was wanted, `[hidden]`; empty where none was.
        rows: how many rows the sum is of.
        scores: one for each of the targets.
    """

    state: tuple[float, ...] = ()
    rows: int = 0
    scores: tuple[TokenScore, ...] = ()


NOTHING = RowsGiven()
"""What rows give of which nothing is wanted."""
