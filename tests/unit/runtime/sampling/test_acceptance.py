"""Acceptance of drafts, and what is drawn after them: equality where equality is promised."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.sampling.acceptance import rejection
from runtime.sampling.params import SamplingParams
from runtime.sampling.random_numbers import DRAFT_STREAM, TOKEN_STREAM, uniform
from runtime.sampling.tokens import DraftToken, SampleSpec
from tests.models.sampler_driver import adjust, distribution, sample, verify
from tests.unit.runtime.sampling.drafts import GREEDY, ids_of, proposals_of, spec_of, weights

VOCAB = 40

EVERYTHING = SamplingParams(0.8, 12, 0.9, 0.02, 1.3, 0.4, 0.3, ((5, 2.0), (7, -3.0)), min_tokens=4, seed=7, logprobs=2)


def _logits(rows: int, *, vocab: int = VOCAB, seed: int = 0) -> torch.Tensor:
    return 2 * torch.randn(rows, vocab, generator=torch.Generator().manual_seed(seed))


# --- drafts that stand for themselves ----------------------------------------------------------------------------

params_of_all_kinds = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 1e-30, 0.5, 1.0, 3.0]),
    top_k=st.sampled_from([0, 1, 5, 1000]),
    top_p=st.sampled_from([0.0, 0.3, 0.9, 1.0]),
    min_p=st.sampled_from([0.0, 0.1, 1.0]),
    repetition_penalty=st.sampled_from([1.0, 1.5]),
    presence_penalty=st.sampled_from([0.0, 1.0]),
    frequency_penalty=st.sampled_from([0.0, -0.5]),
    logit_bias=st.sampled_from([(), ((0, 3.0), (9, -100.0))]),
    min_tokens=st.sampled_from([0, 3, 100]),
    seed=st.integers(0, 2**64 - 1),
)
several = st.lists(params_of_all_kinds, min_size=1, max_size=6)


@given(several, st.integers(0, 1000), st.booleans())
@settings(deadline=None)
def test_the_target_draws_what_it_would_draw_alone(params: list[SamplingParams], seed: int, right: bool) -> None:
    """Whatever is proposed; and the draft is accepted where it is the same."""
    logits = _logits(len(params), seed=seed)
    specs = [spec_of(p, 10 + i, output=[6] * i) for i, p in enumerate(params)]
    plain = sample(logits, specs)
    proposed = [token_id if right else (token_id + 1) % VOCAB for token_id in ids_of(plain)]
    assert verify(logits, specs, [DraftToken(token_id) for token_id in proposed]) == [
        replace(drawn, accepted=right) for drawn in plain
    ]


def test_what_adjusts_the_target_decides_what_is_accepted() -> None:
    """Token 5 is the likeliest of all; then 6; 3 ends the text."""
    logits = torch.zeros(1, VOCAB)
    logits[0, 3], logits[0, 5], logits[0, 6] = 9, 8, 7
    cases = [
        (GREEDY, 0, 3),
        (replace(GREEDY, min_tokens=9), 0, 5),
        (replace(GREEDY, logit_bias=((3, -9.0),)), 0, 5),
        (replace(GREEDY, min_tokens=9, presence_penalty=2.0), 1, 6),
        (replace(GREEDY, min_tokens=9, frequency_penalty=0.9), 1, 5),
        (replace(GREEDY, min_tokens=9, frequency_penalty=0.9), 2, 6),
        (replace(GREEDY, min_tokens=9, repetition_penalty=1.5), 0, 6),
    ]
    for params, count, expected in cases:
        spec = spec_of(params, output=[5] * count)
        for proposed in (3, 5, 6):
            (drawn,) = verify(logits, [spec], [DraftToken(proposed)])
            assert (drawn.token.token_id, drawn.accepted) == (expected, proposed == expected)


def test_without_proposals_it_is_plain_sampling() -> None:
    specs = [spec_of(GREEDY), spec_of(EVERYTHING, 4, output=[6]), spec_of(SamplingParams(seed=2), 9)]
    assert verify(_logits(3), specs, [None] * 3) == sample(_logits(3), specs)


# --- drafts from a distribution ----------------------------------------------------------------------------------


@given(several, st.integers(0, 1000))
@settings(deadline=None)
def test_a_draft_as_good_as_the_target_is_always_accepted(params: list[SamplingParams], seed: int) -> None:
    """And all that adjusts and filters is applied alike to both."""
    logits = _logits(len(params), seed=seed)
    specs = [spec_of(p, 10 + i, output=[6] * i) for i, p in enumerate(params)]
    assert all(drawn.accepted for drawn in verify(logits, specs, proposals_of(logits, specs)))


@given(several, st.integers(0, 1000))
@settings(deadline=None)
def test_what_the_target_filters_out_is_never_said(params: list[SamplingParams], seed: int) -> None:
    target, draft = _logits(len(params), seed=seed).round(), _logits(len(params), seed=seed + 1).round()  # with ties
    params = [replace(p, temperature=p.temperature or 1.0) for p in params]
    specs = [spec_of(p, i) for i, p in enumerate(params)]
    anything = [spec_of(SamplingParams(seed=p.seed), i) for i, p in enumerate(params)]
    possible = distribution(adjust(target, specs), params) > 0
    drawn = verify(target, specs, proposals_of(draft, anything))
    assert all(possible[row, token_id] for row, token_id in enumerate(ids_of(drawn)))


@given(weights.filter(any), weights.filter(any), st.integers(0, 5), st.floats(1e-7, 1 - 1e-7))
@settings(deadline=None)
def test_rejection_leaves_something_to_draw_and_nothing_impossible(
    p: list[float], q: list[float], drafted: int, number: float
) -> None:
    """Also where the draft's probability has vanished in rounding, or the draft is one that nobody could have drawn."""
    (target,), (draft,) = torch.tensor([[p], [q]]).double() / torch.tensor([[[sum(p)]], [[sum(q)]]]).double()
    rest = rejection(target[None].float(), draft[None].float(), torch.tensor([[drafted]]), torch.tensor([[number]]))[0]
    assert rest.isfinite().all()
    assert rest.sum() > 0
    assert (rest >= 0).all()
    assert not (rest > 0)[target.float() == 0].any()


def test_rejection_by_hand() -> None:
    p, q = torch.tensor([[0.5, 0.3, 0.2, 0.0]] * 5), torch.tensor([[0.25, 0.6, 0.1, 0.05]] * 5)
    drafted = torch.tensor([[0], [1], [1], [2], [3]])
    numbers = torch.tensor([[0.99], [0.49], [0.51], [0.99], [1e-9]])
    residual = [0.25, 0.0, 0.1, 0.0]
    expected = [[1.0, 0, 0, 0], [0, 1.0, 0, 0], residual, [0, 0, 1.0, 0], residual]
    torch.testing.assert_close(rejection(p, q, drafted, numbers), torch.tensor(expected))


def test_where_rounding_leaves_no_residual_the_target_s_own_is_drawn_from() -> None:
    p = torch.tensor([[0.5, 0.5 - 1e-7, 0.0]])
    q = torch.tensor([[0.5, 0.5, 0.0]])
    assert torch.equal(rejection(p, q, torch.tensor([[1]]), torch.tensor([[0.99999999]])), p)


def test_a_source_need_not_be_normalised() -> None:
    logits, specs = _logits(50), [spec_of(SamplingParams(seed=1), position) for position in range(50)]
    drafts = proposals_of(_logits(50, seed=1), specs)
    scaled = [DraftToken(p.token_id, 1e-6 * p.distribution) for p in drafts if p.distribution is not None]
    assert ids_of(verify(logits, specs, scaled)) == ids_of(verify(logits, specs, drafts))


# --- drawing a draft ------------------------------------------------------------------------------------------------


def test_a_draft_comes_with_what_it_was_drawn_from() -> None:
    logits = _logits(4)
    specs = [
        spec_of(EVERYTHING, output=[6], draft=True),
        spec_of(EVERYTHING, output=[6]),
        spec_of(replace(GREEDY, logprobs=1), draft=True),
        spec_of(SamplingParams(seed=4, logprobs=1), draft=True),
    ]
    tokens = [drawn.token for drawn in sample(logits, specs)]
    sources = distribution(adjust(logits, specs)[[0, 3]], [EVERYTHING, specs[3].params])
    for row, source in ((0, sources[0]), (3, sources[1])):
        found = tokens[row].distribution
        assert found is not None
        assert torch.equal(found, source)
        assert found.untyped_storage().nbytes() == VOCAB * 4, "the rest of the batch is not kept"
    assert tokens[1].distribution is tokens[2].distribution is None
    assert [token.logprobs is None for token in tokens] == [True, False, True, True]


def test_a_draft_to_be_rejected_is_drawn_by_a_number_of_its_own() -> None:
    logits = torch.zeros(1, 1000)
    for position in range(20):
        spec = spec_of(SamplingParams(seed=3), position)
        for draft, stream in ((False, TOKEN_STREAM), (True, DRAFT_STREAM)):
            (drawn,) = sample(logits, [replace(spec, for_rejection=draft)])
            assert drawn.token.token_id == pytest.approx(1000 * uniform(3, position, stream), abs=1.01)


# --- all kinds of rows together -------------------------------------------------------------------------------------


def _mixture() -> tuple[torch.Tensor, list[SampleSpec], list[DraftToken | None]]:
    """Plain rows, drafts that stand for themselves and drafts that do not, right and wrong, greedy and drawn."""
    params = [GREEDY, SamplingParams(), EVERYTHING, SamplingParams(temperature=0.4, top_p=0.8, logprobs=3)]
    specs = [spec_of(replace(params[i % 4], seed=i), 7 + i, output=[6] * (i % 3)) for i in range(24)]
    logits = _logits(24)
    drafts: list[DraftToken | None] = [DraftToken(token_id) for token_id in ids_of(sample(logits, specs))]
    drafts[:8] = [None] * 8
    rejecting = [row for row in range(12, 24) if specs[row].params.temperature > 0]
    for row, draft in zip(
        rejecting, proposals_of(_logits(24, seed=1)[rejecting], [specs[row] for row in rejecting]), strict=True
    ):
        drafts[row] = draft
    drafts[8] = DraftToken(0)
    return logits, specs, drafts


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    logits, specs, drafts = _mixture()
    together = verify(logits, specs, drafts)
    assert {drawn.accepted for drawn in together[12:]} == {drawn.accepted for drawn in together[8:12]} == {True, False}
    for row in range(24):
        assert verify(logits[row : row + 1], specs[row : row + 1], drafts[row : row + 1]) == [together[row]]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_row_that_is_not_finite_says_so(bad: float) -> None:
    logits, specs, drafts = _mixture()
    sound = verify(logits, specs, drafts)
    broken = [2, 5, 9, 14, 17, 20]
    logits[broken, 11] = bad
    drawn = verify(logits, specs, drafts)
    assert [row for row in range(24) if not drawn[row].finite] == broken
    assert all(0 <= token_id < VOCAB for token_id in ids_of(drawn))
    assert all(drawn[row] == sound[row] for row in range(24) if row not in broken)


def test_nothing_given_is_changed() -> None:
    logits, specs, drafts = _mixture()
    sources = [draft.distribution for draft in drafts if draft and draft.distribution is not None]
    before = [tensor.clone() for tensor in (logits, *sources)]
    verify(logits, specs, drafts)
    assert all(torch.equal(one, other) for one, other in zip(before, (logits, *sources), strict=True))


def test_logprobs_are_the_target_s_for_what_is_said() -> None:
    logits, specs, drafts = _mixture()
    own = logits.log_softmax(-1)
    asked = [row for row in range(24) if specs[row].params.logprobs is not None]
    drawn = verify(logits, specs, drafts)
    assert {drawn[row].accepted for row in asked} == {True, False}
    for row in asked:
        logprobs = drawn[row].token.logprobs
        assert logprobs is not None
        assert logprobs.logprob == pytest.approx(own[row, drawn[row].token.token_id].item(), abs=1e-5)
        assert len(logprobs.top) == specs[row].params.logprobs
