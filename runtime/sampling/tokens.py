"""The types of a token on its way: how it is to be drawn, what was drafted for it, and what was drawn.

They are below `runtime.step`, so that a step and the sampler share them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from runtime.sampling.params import SamplingParams


@dataclass(frozen=True, slots=True)
class SampleSpec:
    """How to draw the token that follows a segment's last row.

    Attributes:
        params: with `seed` resolved to a number.
        position: index of the drawn token in its sequence; with the seed, all that its randomness depends on.
        generated: how many tokens of the output precede it.
        context: the whole sequence so far, prompt first; read only where a penalty asks for it.
        end_ids: tokens that may not be drawn while `generated < params.min_tokens`.
        for_rejection: this draws a draft that rejection sampling will verify: by a random number of its own, and what
            it was drawn from is wanted beside it.
    """

    params: SamplingParams
    position: int
    generated: int
    context: Sequence[int] = ()
    end_ids: tuple[int, ...] = ()
    for_rejection: bool = False

    def after(self, token_ids: Sequence[int]) -> SampleSpec:
        """How the token is drawn that follows `token_ids`, which follow this one's context."""
        if not token_ids:
            return self
        return replace(
            self,
            position=self.position + len(token_ids),
            generated=self.generated + len(token_ids),
            context=[*self.context, *token_ids] if self.params.penalises else self.context,
        )


@dataclass(frozen=True, slots=True, eq=False)
class DraftToken:
    """A drafted token.

    Attributes:
        token_id: what the target is asked to agree to.
        distribution: what it was drawn from, `[vocab]` on the device, not normalised.  None where the token stands for
            itself: looked up, greedy, or drawn with the very random number that the target will use.
    """

    token_id: int
    distribution: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Log-probabilities under the model's own distribution (before temperature, penalties and filters)."""

    logprob: float
    top: tuple[tuple[int, float], ...] = ()  # (token id, logprob), most likely first


@dataclass(frozen=True, slots=True)
class SampledToken:
    """A drawn token, with its log-probabilities where the request asked for them.

    `distribution` is what a draft `for_rejection` was drawn from, as in `DraftToken`.
    """

    token_id: int
    logprobs: TokenLogprobs | None = None
    distribution: torch.Tensor | None = None
