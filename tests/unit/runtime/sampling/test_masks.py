"""Masks of grammars on logits."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from runtime.sampling.masks import BYTE_PENALTIES, mask_penalties
from runtime.sampling.params import SamplingParams
from runtime.sampling.tokens import SampleSpec
from tests.models.sampler_driver import adjust, sample

VOCABULARY = 70


@dataclass(frozen=True)
class Allowing:
    """A mask of these tokens, or of all."""

    tokens: frozenset[int] | None

    def take(self) -> bytes | None:
        """The bits."""
        if self.tokens is None:
            return None
        return sum(1 << token for token in self.tokens).to_bytes(12, "little")


def allowing(*tokens: int) -> Allowing:
    return Allowing(frozenset(tokens))


def spec(*masks: Allowing, temperature: float = 0.0) -> SampleSpec:
    return SampleSpec(SamplingParams(temperature=temperature, seed=3), 5, 2, masks=masks)


def test_each_bit_stands_for_its_token() -> None:
    table = torch.tensor(BYTE_PENALTIES)
    for token in (0, 1, 30, 31, 32, 63, 64, 69):
        penalties = mask_penalties([allowing(token), Allowing(None)], VOCABULARY, table)
        assert penalties.shape == (2, VOCABULARY)
        assert (penalties[0] == 0).nonzero().flatten().tolist() == [token]
        assert (penalties[0] == float("-inf")).sum() == VOCABULARY - 1
        assert not penalties[1].any()


def test_only_rows_with_a_grammar_are_masked() -> None:
    logits = torch.randn(3, VOCABULARY)
    adjusted = adjust(logits, [spec(), spec(allowing(4, 31)), spec()])
    assert torch.equal(adjusted[[0, 2]], logits[[0, 2]])
    assert adjusted[1].isfinite().nonzero().flatten().tolist() == [4, 31]
    assert torch.equal(adjusted[1, [4, 31]], logits[1, [4, 31]])


def test_a_mask_is_taken_only_from_rows_that_have_one() -> None:
    logits = torch.randn(2, VOCABULARY)
    assert adjust(logits, [spec(), spec()]) is logits


def test_drawn_tokens_are_allowed_and_logprobs_are_the_models_own() -> None:
    logits = torch.randn(2, VOCABULARY)
    params = SamplingParams(temperature=1.5, seed=1, logprobs=0)
    drawn = sample(logits, [SampleSpec(params, i, 0, masks=(allowing(7, 60),)) for i in range(2)])
    for row, one in enumerate(drawn):
        assert one.finite
        assert one.token.token_id in (7, 60)
        assert one.token.logprobs is not None
        own = torch.log_softmax(logits[row], -1)[one.token.token_id].item()
        assert abs(one.token.logprobs.logprob - own) < 1e-5


def test_each_row_of_a_verified_draft_has_its_own_mask() -> None:
    first, second, third = allowing(1), allowing(2), allowing(3)
    specs = [spec(first, second, third).after([1, 2][:i]) for i in range(3)]
    assert [one.mask for one in specs] == [first, second, third]
    assert spec().after([1]).mask is None
