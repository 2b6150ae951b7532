"""The types of a token on its way: how it is to be drawn, what was drafted for it, and what was drawn.

A step (`runtime.step`) is told of tokens, and tells of them, in these.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from runtime.sampling.random_numbers import TOKEN_STREAM, uniform

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import torch

    from runtime.sampling.params import SamplingParams


class TokenMask(Protocol):
    """Says which tokens may be drawn at one position; it may still be computed while the step's layers run."""

    def take(self) -> bytes | None:
        """Return a bit for each token, the lowest of the first byte first, or None where any may be drawn.

        The bits are a whole number of 32-bit words, of which none is missing for the vocabulary.  Whoever asks waits
        for them, or computes them.
        """


class AllowedTokens:
    """The mask of a request that lists the tokens that may be drawn, the same at every position.

    Args:
        token_ids: of these tokens, within the vocabulary.
        vocab_size: tokens of the vocabulary.
    """

    def __init__(self, token_ids: Iterable[int], vocab_size: int) -> None:
        bits = bytearray(4 * -(-vocab_size // 32))
        for token_id in token_ids:
            bits[token_id >> 3] |= 1 << (token_id & 7)
        self._bits = bytes(bits)

    def take(self) -> bytes:
        """Return the bits; see `TokenMask`."""
        return self._bits


@dataclass(frozen=True, slots=True)
class SampleSpec:
    """Specification of how to draw the token that follows a row.

    Attributes:
        params: with `seed` resolved to a number.
        position: index of the drawn token in its sequence; with the seed, all that its randomness depends on.
        generated: how many tokens of the output precede it.
        context: the whole sequence so far, prompt first; read only where a penalty or a bad word asks for it.
        end_ids: tokens that may not be drawn while `generated < params.min_tokens`.
        for_rejection: the token is a draft that rejection sampling will verify.  It is drawn by a random number of its
            own, and its distribution is returned beside it.
        masks: which tokens a grammar or the request allows: here, and after each of the drafts that follow, if there
            are any; empty where any may be drawn.
    """

    params: SamplingParams
    position: int
    generated: int
    context: Sequence[int] = ()
    end_ids: tuple[int, ...] = ()
    for_rejection: bool = False
    masks: tuple[TokenMask, ...] = ()

    @property
    def mask(self) -> TokenMask | None:
        """Mask of the tokens that may be drawn; None for any."""
        return self.masks[0] if self.masks else None

    def number(self, stream: int = TOKEN_STREAM) -> float:
        """Return the random number, uniform in (0, 1), of the position in one of the streams."""
        assert self.params.seed is not None, "the request resolves the seed"
        return uniform(self.params.seed, self.position, stream)

    def after(self, token_ids: Sequence[int]) -> SampleSpec:
        """Return how the token is drawn that follows `token_ids`, which follow this one's context."""
        if not token_ids:
            return self
        return replace(
            self,
            position=self.position + len(token_ids),
            generated=self.generated + len(token_ids),
            context=[*self.context, *token_ids] if self.params.looks_back else self.context,
            masks=self.masks[len(token_ids) :],
        )


class TokenDraws(Protocol):
    """Draws tokens in another way than by PyTorch's operations, each as likely."""

    def draw(self, logits: torch.Tensor, specs: Sequence[SampleSpec]) -> torch.Tensor:
        """Draw the token of each row, greedy ones among them, by the number that its spec has for it.

        Args:
            logits: float32 `[rows, vocab]`, adjusted; of a row that is not all finite any token is drawn.
            specs: one for each row.

        Returns:
            Token ids, int64 `[rows]`.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class DraftToken:
    """A drafted token, for the target to verify.

    Attributes:
        token_id: what the target is asked to agree to.
        distribution: what the draft was drawn from, `[vocab]` on the device, not normalised.  None for a draft that is
            looked up, greedy, or drawn with the random number that the target will use: it is accepted where the
            target draws the same token.
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
    """A drawn token.

    Attributes:
        logprobs: None where the request asked for none.
        distribution: of a draft `for_rejection`, as in `DraftToken`; None for any other token.
    """

    token_id: int
    logprobs: TokenLogprobs | None = None
    distribution: torch.Tensor | None = None
