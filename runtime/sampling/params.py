"""Sampling parameters of one generation."""

from __future__ import annotations

from dataclasses import dataclass, replace

from runtime.sampling.random_numbers import splitmix64


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Parameters by which one generation samples its tokens.

    The defaults are neutral; a server's own are in `runtime.checkpoint.sampling_defaults`.

    Attributes:
        temperature: 0 is greedy.
        top_k: how many of the likeliest tokens may be drawn; 0 for all.
        top_p: the share of the probability that the likeliest tokens which may be drawn have together; 1 for all.
        min_p: the least probability of a token, as a share of the likeliest one's; 0 for any.
        repetition_penalty: divides or multiplies the logits of tokens seen in prompt or output (Keskar et al., arXiv
            1909.05858); 1 for none.
        presence_penalty: is subtracted from the logits of tokens seen in the output.
        frequency_penalty: is subtracted once for each time that the output has the token.
        logit_bias: pairs of a token id and what is added to its logit.
        bad_words: sequences of tokens that no output has; the last token of one may not follow the others.
        min_tokens: tokens of output before one may end it.
        seed: None asks for a fresh one.
        logprobs: how many alternatives to report beside the chosen token; None for no log-probabilities at all.
        reproducible: the client named the seed, and so is promised the same tokens again, however many are drafted.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    bad_words: tuple[tuple[int, ...], ...] = ()
    min_tokens: int = 0
    seed: int | None = None
    logprobs: int | None = None
    reproducible: bool = True

    @property
    def penalises(self) -> bool:
        """Return whether a token is the less probable for having come before."""
        return self.repetition_penalty != 1 or self.presence_penalty != 0 or self.frequency_penalty != 0

    @property
    def looks_back(self) -> bool:
        """Return whether a token's probability depends on the tokens before it, beside what the model makes of them."""
        return self.penalises or any(len(word) > 1 for word in self.bad_words)

    def for_choice(self, index: int) -> SamplingParams:
        """Return these parameters with generation `index`'s own seed, so that n choices of one request differ."""
        if self.seed is None or index == 0:
            return self
        return replace(self, seed=splitmix64(self.seed + index))
