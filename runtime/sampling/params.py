"""Sampling parameters, and the random numbers that tokens are drawn by."""

from __future__ import annotations

from dataclasses import dataclass, replace

# Which of a position's random numbers, each independent of the others: the token's own; the draft's, where the token
# must not depend on what the draft was drawn by; and that which says whether such a draft stands.
OWN, DRAFT, VERDICT = range(3)

_MASK64 = (1 << 64) - 1


def splitmix64(state: int) -> int:
    """One output of SplitMix64 (Steele et al., OOPSLA 2014) for the 64-bit `state`."""
    z = (state + 0x9E3779B97F4A7C15) & _MASK64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK64
    return z ^ (z >> 31)


def uniform(seed: int, position: int, stream: int = OWN) -> float:
    """A number in (0, 1) for this seed and position (below 2^48) in one of several independent streams.

    22 bits and a half: so short of 1 that its float32 product with a total is always below that total.
    """
    bits = splitmix64(splitmix64(seed & _MASK64) ^ (stream << 48) ^ position) >> 42
    return (bits + 0.5) / (1 << 22)


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How one generation picks its tokens.  The defaults are neutral; a server's are `SamplingDefaults`.

    `temperature` 0 is greedy.  `top_k` 0, `top_p` 1 and `min_p` 0 leave the distribution whole.  `repetition_penalty`
    divides or multiplies the logits of tokens seen in prompt or output (Keskar et al., arXiv 1909.05858); presence and
    frequency penalties count the output only.  `logprobs` is how many alternatives to report beside the chosen token
    (None: no logprobs at all).  `seed` None asks for a fresh one; `reproducible` says that the client named it, and so
    is promised the same tokens again, however many of them are drafted.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    min_tokens: int = 0
    seed: int | None = None
    logprobs: int | None = None
    reproducible: bool = True

    @property
    def penalises(self) -> bool:
        """Whether a token's probability depends on the tokens before it."""
        return self.repetition_penalty != 1 or self.presence_penalty != 0 or self.frequency_penalty != 0

    def for_choice(self, index: int) -> SamplingParams:
        """These parameters with generation `index`'s own seed, so that n choices of one request differ."""
        if self.seed is None or index == 0:
            return self
        return replace(self, seed=splitmix64(self.seed + index))
