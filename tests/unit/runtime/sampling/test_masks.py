"""Masks of grammars on logits."""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch

from runtime.sampling import sampler
from runtime.sampling.batch import SamplingBatch
from runtime.sampling.masks import MaskPenalties
from runtime.sampling.params import SamplingParams
from runtime.sampling.staging import StagingBuffer
from runtime.sampling.tokens import SampleSpec
from tests.models.sampler_driver import adjust, sample

VOCABULARY = 70
ROW_BYTES = 4 * VOCABULARY
CPU = torch.device("cpu")


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


def penalties_of(*masks: Allowing) -> list[torch.Tensor]:
    return MaskPenalties(CPU).rows(masks, VOCABULARY)


def test_each_bit_stands_for_its_token() -> None:
    for token in (0, 1, 30, 31, 32, 63, 64, 69):
        one, every = penalties_of(allowing(token), Allowing(None))
        assert one.shape == every.shape == (VOCABULARY,)
        assert (one == 0).nonzero().flatten().tolist() == [token]
        assert (one == float("-inf")).sum() == VOCABULARY - 1
        assert not every.any()


def test_the_row_of_a_mask_that_comes_again_is_kept() -> None:
    """And it is the right one, whichever come beside it: new ones, kept ones, and one that comes twice."""
    penalties, dice = MaskPenalties(CPU), random.Random(1)
    masks = [allowing(*dice.sample(range(VOCABULARY), 5)) for _ in range(6)]
    kept = 0
    for _ in range(40):
        step = dice.choices(masks, k=4)
        for mask, row in zip(step, penalties.rows(step, VOCABULARY), strict=True):
            assert torch.equal(row, penalties_of(mask)[0])
        assert kept <= penalties.nbytes <= len(masks) * ROW_BYTES
        kept = penalties.nbytes
    assert kept == len(masks) * ROW_BYTES
    assert penalties.rows(masks[:1], VOCABULARY)[0] is penalties.rows(masks[:1], VOCABULARY)[0]


def test_a_mask_that_came_once_is_not_kept() -> None:
    penalties = MaskPenalties(CPU)
    penalties.rows([allowing(token) for token in range(VOCABULARY)], VOCABULARY)
    assert penalties.nbytes == 0


def test_the_oldest_rows_give_way() -> None:
    penalties = MaskPenalties(CPU, kept_bytes=3 * ROW_BYTES)
    rows = {}
    for token in (1, 2, 3, 4):
        for _ in range(3):
            (rows[token],) = penalties.rows([allowing(token)], VOCABULARY)
        assert penalties.nbytes == min(token, 3) * ROW_BYTES
    assert penalties.rows([allowing(4)], VOCABULARY)[0] is rows[4]
    assert penalties.rows([allowing(2)], VOCABULARY)[0] is rows[2]
    assert penalties.rows([allowing(1)], VOCABULARY)[0] is not rows[1]


def test_one_row_is_kept_however_long_it_is() -> None:
    penalties = MaskPenalties(CPU, kept_bytes=0)
    for token in (1, 1, 2, 2):
        penalties.rows([allowing(token)], VOCABULARY)
    assert penalties.nbytes == ROW_BYTES


def test_logits_are_masked_alike_by_new_rows_and_by_kept_ones() -> None:
    """In one row or several, equal masks or different ones, beside rows without a mask or not."""
    penalties, logits = MaskPenalties(CPU), torch.randn(3, VOCABULARY)
    for masks in ([(1, 2)], [(1, 2), (1, 2)], [(1, 2), (3,)], [(1, 2), (1, 2), (1, 2)], [(4,), (), (1, 2)]):
        specs = [spec(*([allowing(*tokens)] if tokens else [])) for tokens in masks]
        for _ in range(3):
            staging = StagingBuffer()
            batch = SamplingBatch.stage(specs, [None] * len(specs), staging, penalties)
            staging.send(CPU)
            adjusted = sampler.adjust_logits(logits[: len(masks)].clone(), batch)
            for row, tokens in enumerate(masks):
                allowed = list(tokens) or list(range(VOCABULARY))
                assert adjusted[row].isfinite().nonzero().flatten().tolist() == allowed
                assert torch.equal(adjusted[row, allowed], logits[row, allowed])


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
