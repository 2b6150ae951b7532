"""Speculation leaves no trace: statistics that a wrong rule fails, and equality where equality is promised."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.sampling import acceptance, draws
from runtime.sampling.acceptance import rejection
from runtime.sampling.params import DRAFT, OWN, SamplingParams, uniform
from runtime.sampling.tokens import DraftToken, SampleSpec
from runtime.step.step import Segment
from tests.models.drawing import accept, adjust, distribution, sample
from tests.models.goodness import chi_square, filtered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runtime.sampling.sampler import Drawn

VOCAB = 40
GREEDY = SamplingParams(temperature=0)
END_IDS = (3, 4)

EVERYTHING = SamplingParams(0.8, 12, 0.9, 0.02, 1.3, 0.4, 0.3, ((5, 2.0), (7, -3.0)), min_tokens=4, seed=7, logprobs=2)


def _logits(rows: int, *, vocab: int = VOCAB, seed: int = 0) -> torch.Tensor:
    return 2 * torch.randn(rows, vocab, generator=torch.Generator().manual_seed(seed))


def _spec(params: SamplingParams, position: int = 0, *, output: Sequence[int] = (), draft: bool = False) -> SampleSpec:
    return SampleSpec(params, position, len(output), (1, 2, 5, *output), END_IDS, draft)


def _ids(drawn: Sequence[Drawn]) -> list[int]:
    return [one.token.token_id for one in drawn]


def _drafted(logits: torch.Tensor, specs: Sequence[SampleSpec]) -> list[DraftToken]:
    """What a draft model with these logits proposes, to be verified by rejection sampling."""
    drawn = sample(logits, [replace(spec, for_rejection=True) for spec in specs])
    return [DraftToken(one.token.token_id, one.token.distribution) for one in drawn]


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
    specs = [_spec(p, 10 + i, output=[6] * i) for i, p in enumerate(params)]
    plain = sample(logits, specs)
    proposed = [token_id if right else (token_id + 1) % VOCAB for token_id in _ids(plain)]
    assert accept(logits, specs, [DraftToken(token_id) for token_id in proposed]) == [
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
        spec = _spec(params, output=[5] * count)
        for proposed in (3, 5, 6):
            (drawn,) = accept(logits, [spec], [DraftToken(proposed)])
            assert (drawn.token.token_id, drawn.accepted) == (expected, proposed == expected)


def test_without_proposals_it_is_plain_sampling() -> None:
    specs = [_spec(GREEDY), _spec(EVERYTHING, 4, output=[6]), _spec(SamplingParams(seed=2), 9)]
    assert accept(_logits(3), specs, [None] * 3) == sample(_logits(3), specs)


# --- drafts from a distribution ----------------------------------------------------------------------------------


@given(several, st.integers(0, 1000))
@settings(deadline=None)
def test_a_draft_as_good_as_the_target_is_always_accepted(params: list[SamplingParams], seed: int) -> None:
    """And all that adjusts and filters is applied alike to both."""
    logits = _logits(len(params), seed=seed)
    specs = [_spec(p, 10 + i, output=[6] * i) for i, p in enumerate(params)]
    assert all(drawn.accepted for drawn in accept(logits, specs, _drafted(logits, specs)))


@given(several, st.integers(0, 1000))
@settings(deadline=None)
def test_what_the_target_filters_out_is_never_said(params: list[SamplingParams], seed: int) -> None:
    target, draft = _logits(len(params), seed=seed).round(), _logits(len(params), seed=seed + 1).round()  # with ties
    params = [replace(p, temperature=p.temperature or 1.0) for p in params]
    specs = [_spec(p, i) for i, p in enumerate(params)]
    anything = [_spec(SamplingParams(seed=p.seed), i) for i, p in enumerate(params)]
    possible = distribution(adjust(target, specs), params) > 0
    drawn = accept(target, specs, _drafted(draft, anything))
    assert all(possible[row, token_id] for row, token_id in enumerate(_ids(drawn)))


weights = st.lists(st.sampled_from([0.0, 0.0, 1e-45, 1e-30, 1e-7, 0.1, 0.1, 1.0, 7.0]), min_size=6, max_size=6)


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
    logits, specs = _logits(50), [_spec(SamplingParams(seed=1), position) for position in range(50)]
    drafts = _drafted(_logits(50, seed=1), specs)
    scaled = [DraftToken(p.token_id, 1e-6 * p.distribution) for p in drafts if p.distribution is not None]
    assert _ids(accept(logits, specs, scaled)) == _ids(accept(logits, specs, drafts))


# --- drawing a draft ------------------------------------------------------------------------------------------------


def test_a_draft_comes_with_what_it_was_drawn_from() -> None:
    logits = _logits(4)
    specs = [
        _spec(EVERYTHING, output=[6], draft=True),
        _spec(EVERYTHING, output=[6]),
        _spec(replace(GREEDY, logprobs=1), draft=True),
        _spec(SamplingParams(seed=4, logprobs=1), draft=True),
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
        spec = _spec(SamplingParams(seed=3), position)
        for draft, stream in ((False, OWN), (True, DRAFT)):
            (drawn,) = sample(logits, [replace(spec, for_rejection=draft)])
            assert drawn.token.token_id == pytest.approx(1000 * uniform(3, position, stream), abs=1.01)


# --- all kinds of rows together -------------------------------------------------------------------------------------


def _mixture() -> tuple[torch.Tensor, list[SampleSpec], list[DraftToken | None]]:
    """Plain rows, drafts that stand for themselves and drafts that do not, right and wrong, greedy and drawn."""
    params = [GREEDY, SamplingParams(), EVERYTHING, SamplingParams(temperature=0.4, top_p=0.8, logprobs=3)]
    specs = [_spec(replace(params[i % 4], seed=i), 7 + i, output=[6] * (i % 3)) for i in range(24)]
    logits = _logits(24)
    drafts: list[DraftToken | None] = [DraftToken(token_id) for token_id in _ids(sample(logits, specs))]
    drafts[:8] = [None] * 8
    rejecting = [row for row in range(12, 24) if specs[row].params.temperature > 0]
    for row, draft in zip(
        rejecting, _drafted(_logits(24, seed=1)[rejecting], [specs[row] for row in rejecting]), strict=True
    ):
        drafts[row] = draft
    drafts[8] = DraftToken(0)
    return logits, specs, drafts


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    logits, specs, drafts = _mixture()
    together = accept(logits, specs, drafts)
    assert {drawn.accepted for drawn in together[12:]} == {drawn.accepted for drawn in together[8:12]} == {True, False}
    for row in range(24):
        assert accept(logits[row : row + 1], specs[row : row + 1], drafts[row : row + 1]) == [together[row]]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_row_that_is_not_finite_says_so(bad: float) -> None:
    logits, specs, drafts = _mixture()
    sound = accept(logits, specs, drafts)
    broken = [2, 5, 9, 14, 17, 20]
    logits[broken, 11] = bad
    drawn = accept(logits, specs, drafts)
    assert [row for row in range(24) if not drawn[row].finite] == broken
    assert all(0 <= token_id < VOCAB for token_id in _ids(drawn))
    assert all(drawn[row] == sound[row] for row in range(24) if row not in broken)


def test_nothing_given_is_changed() -> None:
    logits, specs, drafts = _mixture()
    sources = [draft.distribution for draft in drafts if draft and draft.distribution is not None]
    before = [tensor.clone() for tensor in (logits, *sources)]
    accept(logits, specs, drafts)
    assert all(torch.equal(one, other) for one, other in zip(before, (logits, *sources), strict=True))


def test_logprobs_are_the_target_s_for_what_is_said() -> None:
    logits, specs, drafts = _mixture()
    own = logits.log_softmax(-1)
    asked = [row for row in range(24) if specs[row].params.logprobs is not None]
    drawn = accept(logits, specs, drafts)
    assert {drawn[row].accepted for row in asked} == {True, False}
    for row in asked:
        logprobs = drawn[row].token.logprobs
        assert logprobs is not None
        assert logprobs.logprob == pytest.approx(own[row, drawn[row].token.token_id].item(), abs=1e-5)
        assert len(logprobs.top) == specs[row].params.logprobs


# --- goodness of fit: one token -------------------------------------------------------------------------------------

DRAWS = 20_000
TARGET = torch.tensor([[1.0, -1.0, 0.5, 2.0, -0.5, 0.0, 1.5, -3.0]])
DRAFTS = {
    "poor": torch.tensor([[2.0, 0.5, -1.0, 1.0, 0.0, 0.0, -2.0, 1.0]]),
    "contrary": -TARGET,
    "clueless": torch.zeros(1, 8),
}

SETTINGS: list[dict[str, Any]] = [
    {"seed": 1},
    {"seed": 2, "temperature": 0.4},
    {"seed": 3, "temperature": 1.8},
    {"seed": 4, "top_p": 0.8},
    {"seed": 5, "temperature": 1.3, "top_p": 0.6},
    {"seed": 6, "top_k": 3},
    {"seed": 7, "min_p": 0.2},
    {"seed": 8, "temperature": 0.7, "top_k": 5, "top_p": 0.9, "min_p": 0.05, "logit_bias": ((1, 2.0), (3, -1.0))},
]


def _exact(logits: torch.Tensor, params: SamplingParams) -> list[float]:
    """What one row of logits is drawn from."""
    biased = logits.flatten().tolist()
    for token_id, bias in params.logit_bias:
        biased[token_id] += bias
    return filtered(biased, params)


def _near(count: int, trials: int, chance: float) -> bool:
    return abs(count - trials * chance) <= 4 * math.sqrt(trials * chance * (1 - chance))


def _specs(params: SamplingParams) -> list[SampleSpec]:
    """How the token at each of so many positions is drawn."""
    return [_spec(params, position) for position in range(DRAWS)]


def _proposed(draft: str, specs: Sequence[SampleSpec]) -> list[DraftToken]:
    return _drafted(DRAFTS[draft].expand(DRAWS, -1), specs)


def _verify(drafts: Sequence[DraftToken], specs: Sequence[SampleSpec]) -> list[Drawn]:
    return accept(TARGET.expand(DRAWS, -1), specs, drafts)


def _fit(drawn: Sequence[Drawn], params: SamplingParams) -> tuple[float, float]:
    return chi_square(Counter(_ids(drawn)), _exact(TARGET, params))


@pytest.mark.parametrize(
    ("setting", "draft"),
    [*((setting, "poor") for setting in SETTINGS), (SETTINGS[0], "contrary"), (SETTINGS[7], "clueless")],
    ids=str,
)
def test_drafts_do_not_change_how_often_a_token_comes(setting: dict[str, Any], draft: str) -> None:
    params = SamplingParams(**setting, reproducible=False)
    specs = _specs(params)
    drawn = _verify(_proposed(draft, specs), specs)
    statistic, limit = _fit(drawn, params)
    assert statistic < limit
    overlap = sum(
        map(min, _exact(TARGET, params), _exact(DRAFTS[draft], params))
    )  # one less the total variation distance
    assert _near(sum(one.accepted for one in drawn), DRAWS, overlap)


@pytest.mark.parametrize(("setting", "looked_up"), [*((setting, 3) for setting in SETTINGS), (SETTINGS[0], 7)], ids=str)
def test_lookups_do_not_change_how_often_a_token_comes(setting: dict[str, Any], looked_up: int) -> None:
    params = SamplingParams(**setting, reproducible=False)
    drawn = _verify([DraftToken(looked_up)] * DRAWS, _specs(params))
    statistic, limit = _fit(drawn, params)
    assert statistic < limit
    assert _near(sum(one.accepted for one in drawn), DRAWS, _exact(TARGET, params)[looked_up])


# --- wrong rules ----------------------------------------------------------------------------------------------------


def _one_hot(p: torch.Tensor, drafted: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(p).scatter(-1, drafted, 1.0)


def _always(p: torch.Tensor, q: torch.Tensor, drafted: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    return _one_hot(p, drafted)


def _by_p_alone(p: torch.Tensor, q: torch.Tensor, drafted: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    return torch.where(numbers < p.gather(-1, drafted), _one_hot(p, drafted), (p - q).clamp(min=0))


def _residual_of_p(p: torch.Tensor, q: torch.Tensor, drafted: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    return torch.where(numbers * q.gather(-1, drafted) < p.gather(-1, drafted), _one_hot(p, drafted), p)


def _residual_of_others(p: torch.Tensor, q: torch.Tensor, drafted: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    stands = numbers * q.gather(-1, drafted) < p.gather(-1, drafted)
    return torch.where(stands, _one_hot(p, drafted), p * (1 - _one_hot(p, drafted)))


# What is replaced, and by what.
WRONG: dict[str, tuple[Any, str, Any]] = {
    "always": (acceptance, "rejection", _always),
    "by p alone": (acceptance, "rejection", _by_p_alone),
    "residual of p": (acceptance, "rejection", _residual_of_p),
    "residual of all others": (acceptance, "rejection", _residual_of_others),
    "verdict and draw by one number": (draws, "VERDICT", OWN),
    "verdict and draft by one number": (draws, "VERDICT", DRAFT),
}


@pytest.mark.parametrize("setting", [SETTINGS[0], SETTINGS[4]], ids=str)
def test_a_wrong_rule_does_not_pass(setting: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    params = SamplingParams(**setting, reproducible=False)
    specs = _specs(params)
    drafts = _proposed("poor", specs)
    passed = []
    for name, wrong in WRONG.items():
        with monkeypatch.context() as patch:
            patch.setattr(*wrong)
            statistic, limit = _fit(_verify(drafts, specs), params)
        if statistic < limit:
            passed.append(name)
    assert passed == []


def test_a_source_taken_as_it_is_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a filter leaves of a distribution sums to less than 1."""
    monkeypatch.setattr(acceptance, "_normalised", lambda weights: weights)
    params = SamplingParams(seed=4, top_p=0.8, reproducible=False)
    specs = _specs(params)
    statistic, limit = _fit(_verify(_proposed("poor", specs), specs), params)
    assert statistic > limit


# --- goodness of fit: whole texts -----------------------------------------------------------------------------------

STREAMS = 8_000  # of three tokens or more each
WORDS = 3
# Logits by the token before; the draft has learnt some of it.
LANGUAGE = torch.randn(WORDS, WORDS, generator=torch.Generator().manual_seed(5)) + 2.0 * torch.eye(WORDS).roll(1, -1)
DIALECT = LANGUAGE + 1.5 * torch.randn(WORDS, WORDS, generator=torch.Generator().manual_seed(7))


def _dialect(texts: Sequence[Sequence[int]], specs: Sequence[SampleSpec]) -> list[DraftToken]:
    """A draft model."""
    drawn = sample(DIALECT[[text[-1] for text in texts]], specs)
    return [DraftToken(one.token.token_id, one.token.distribution) for one in drawn]


def _next_word(texts: Sequence[Sequence[int]], specs: Sequence[SampleSpec]) -> list[DraftToken]:
    """As prompt lookup proposes: a token, and nothing said of how likely it is."""
    return [DraftToken((text[-1] + 1) % WORDS) for text in texts]


@dataclass(slots=True)
class Writer:
    """Writes texts side by side, in rounds of at most `k` drafts and one verification, until all are whole."""

    propose: Callable[[Sequence[Sequence[int]], Sequence[SampleSpec]], list[DraftToken]]
    k: int
    length: int
    accepted_first: int = 0  # drafts, in the first round

    def write(self, specs: Sequence[SampleSpec]) -> list[list[int]]:
        """One text for each spec, which is that of its first token; before that stands a 0, which is given."""
        texts = [[0] for _ in specs]
        self._round(texts, specs)
        self.accepted_first = sum(len(text) - 2 for text in texts)
        while going := [i for i, text in enumerate(texts) if len(text) <= self.length]:
            self._round([texts[i] for i in going], [specs[i].after(texts[i][1:]) for i in going])
        return [text[1 : self.length + 1] for text in texts]

    def _round(self, texts: Sequence[list[int]], specs: Sequence[SampleSpec]) -> None:
        drafted = self._draft(texts, specs)
        segments = [
            Segment(0, 0, [text[-1], *(draft.token_id for draft in drafts)], sample=spec, drafts=drafts)
            for text, spec, drafts in zip(texts, specs, drafted, strict=True)
        ]
        drawn = iter(
            accept(
                LANGUAGE[[token for segment in segments for token in segment.token_ids]],
                [spec for segment in segments for spec in segment.samples],
                [draft for segment in segments for draft in (*segment.drafts, None)],
            )
        )
        for text, segment in zip(texts, segments, strict=True):
            text += _cut([next(drawn) for _ in segment.token_ids])

    def _draft(self, texts: Sequence[list[int]], specs: Sequence[SampleSpec]) -> list[list[DraftToken]]:
        """`k` drafts after each text, or as many as there is room for."""
        drafts: list[list[DraftToken]] = [[] for _ in texts]
        # Where the client named the seed, drafts are drawn by the target's own numbers.
        specs = [spec if spec.params.reproducible else replace(spec, for_rejection=True) for spec in specs]
        for drafted in range(self.k):
            going = [i for i, text in enumerate(texts) if len(text) + drafted <= self.length]
            said = [[draft.token_id for draft in drafts[i]] for i in going]
            longer = [[*texts[i], *tokens] for i, tokens in zip(going, said, strict=True)]
            theirs = [specs[i].after(tokens) for i, tokens in zip(going, said, strict=True)]
            for i, draft in zip(going, self.propose(longer, theirs), strict=True):
                drafts[i].append(draft)
        return drafts


def _cut(drawn: Sequence[Drawn]) -> list[int]:
    """The accepted drafts and the token after them."""
    end = next(i for i, one in enumerate(drawn) if not one.accepted)
    return _ids(drawn[: end + 1])


def _beginnings(params: SamplingParams) -> list[SampleSpec]:
    """Texts of one seed, at positions far enough apart to have random numbers of their own."""
    return [SampleSpec(params, 64 * i, 0) for i in range(STREAMS)]


def _joint(texts: Sequence[Sequence[int]], params: SamplingParams) -> tuple[float, float]:
    """Chi-square of whole texts, all of one length, and its limit."""
    chances = [_exact(row, params) for row in LANGUAGE]
    possible = list(product(range(WORDS), repeat=len(texts[0])))
    probs = [math.prod(chances[a][b] for a, b in zip((0, *text), text, strict=False)) for text in possible]
    place = {text: i for i, text in enumerate(possible)}
    return chi_square(Counter(place[tuple(text)] for text in texts), probs)


def _expected(k: int, params: SamplingParams, draft: Callable[[int], list[float]]) -> float:
    """How many of a round's k drafts are accepted: what is common to target and draft, once, twice, …"""
    reached = [1.0] + [0.0] * (WORDS - 1)
    total = 0.0
    for _ in range(k):
        common = [list(map(min, _exact(LANGUAGE[a], params), draft(a))) for a in range(WORDS)]
        reached = [sum(reached[a] * common[a][b] for a in range(WORDS)) for b in range(WORDS)]
        total += sum(reached)
    return total


# How many drafts at once, tokens in a text, and what is asked for.
TEXTS: list[tuple[int, int, dict[str, Any]]] = [
    (1, 3, {"seed": 1}),
    (2, 3, {"seed": 2, "temperature": 1.6}),
    (3, 3, {"seed": 3, "top_p": 0.9}),
    (4, 4, {"seed": 4, "temperature": 0.7}),
]


def _about(writer: Writer, expected: float) -> bool:
    """Whether as many drafts as expected were accepted in the first round; their number varies by k / 2 at most."""
    return abs(writer.accepted_first - STREAMS * expected) <= 4 * writer.k / 2 * math.sqrt(STREAMS)


@pytest.mark.parametrize(("k", "length", "setting"), TEXTS, ids=str)
def test_drafting_does_not_change_how_often_a_text_comes(k: int, length: int, setting: dict[str, Any]) -> None:
    params = SamplingParams(**setting, reproducible=False)
    writer = Writer(_dialect, k, length)
    statistic, limit = _joint(writer.write(_beginnings(params)), params)
    assert statistic < limit
    assert _about(writer, _expected(k, params, lambda before: _exact(DIALECT[before], params)))


def test_looking_up_does_not_change_how_often_a_text_comes() -> None:
    params = SamplingParams(seed=5, temperature=1.2, reproducible=False)
    writer = Writer(_next_word, 2, 3)
    statistic, limit = _joint(writer.write(_beginnings(params)), params)
    assert statistic < limit
    assert _about(writer, _expected(2, params, lambda before: [float(b == (before + 1) % WORDS) for b in range(WORDS)]))


@pytest.mark.parametrize("wrong", ["always", "by p alone", "residual of p"])
def test_a_wrong_rule_changes_how_often_a_text_comes(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*WRONG[wrong])
    params = SamplingParams(seed=1, reproducible=False)
    statistic, limit = _joint(Writer(_dialect, 1, 2).write(_beginnings(params)), params)
    assert statistic > limit


# --- seeds ----------------------------------------------------------------------------------------------------------

SEEDED: list[SamplingParams] = [
    GREEDY,
    SamplingParams(),
    SamplingParams(temperature=1.5, top_p=0.9),
    SamplingParams(temperature=0.8, repetition_penalty=1.2, frequency_penalty=0.3, presence_penalty=-0.2),
    SamplingParams(min_p=0.1, logit_bias=((1, 1.0),), min_tokens=10),
]


@pytest.mark.parametrize("propose", [_dialect, _next_word])
@pytest.mark.parametrize("params", SEEDED, ids=str)
def test_a_seed_gives_the_same_text_however_much_is_drafted(
    params: SamplingParams, propose: Callable[[Sequence[Sequence[int]], Sequence[SampleSpec]], list[DraftToken]]
) -> None:
    specs = [SampleSpec(replace(params, seed=seed), 1, 0, [0], end_ids=(2,)) for seed in range(30)]
    plain = Writer(propose, 0, 16).write(specs)
    for k in (1, 2, 3, 8):
        writer = Writer(propose, k, 16)
        assert writer.write(specs) == plain
        assert writer.accepted_first > 0
