"""Drafts do not change how often a whole text comes, nor the text of a seed."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
import torch

from runtime.sampling.params import SamplingParams
from runtime.sampling.tokens import DraftToken, SampleSpec
from runtime.step.step import Segment
from tests.models.chi_square import chi_square
from tests.models.sampler_driver import sample, verify
from tests.unit.runtime.sampling.drafts import GREEDY, WRONG, exact, ids_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runtime.sampling.sampler import SampledRow


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
            verify(
                LANGUAGE[[token for segment in segments for token in segment.token_ids]],
                [spec for segment in segments for spec in segment.sample_specs],
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


def _cut(drawn: Sequence[SampledRow]) -> list[int]:
    """The accepted drafts and the token after them."""
    end = next(i for i, one in enumerate(drawn) if not one.accepted)
    return ids_of(drawn[: end + 1])


def _beginnings(params: SamplingParams) -> list[SampleSpec]:
    """Texts of one seed, at positions far enough apart to have random numbers of their own."""
    return [SampleSpec(params, 64 * i, 0) for i in range(STREAMS)]


def _joint(texts: Sequence[Sequence[int]], params: SamplingParams) -> tuple[float, float]:
    """Chi-square of whole texts, all of one length, and its limit."""
    chances = [exact(row, params) for row in LANGUAGE]
    possible = list(product(range(WORDS), repeat=len(texts[0])))
    probs = [math.prod(chances[a][b] for a, b in zip((0, *text), text, strict=False)) for text in possible]
    place = {text: i for i, text in enumerate(possible)}
    return chi_square(Counter(place[tuple(text)] for text in texts), probs)


def _expected(k: int, params: SamplingParams, draft: Callable[[int], list[float]]) -> float:
    """Return how many of a round's k drafts are accepted: what is common to both, once, twice, and so on."""
    reached = [1.0] + [0.0] * (WORDS - 1)
    total = 0.0
    for _ in range(k):
        common = [list(map(min, exact(LANGUAGE[a], params), draft(a))) for a in range(WORDS)]
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
    """Return whether as many drafts as expected were accepted in the first round; they vary by k / 2 at most."""
    return abs(writer.accepted_first - STREAMS * expected) <= 4 * writer.k / 2 * math.sqrt(STREAMS)


@pytest.mark.parametrize(("k", "length", "setting"), TEXTS, ids=str)
def test_drafting_does_not_change_how_often_a_text_comes(k: int, length: int, setting: dict[str, Any]) -> None:
    params = SamplingParams(**setting, reproducible=False)
    writer = Writer(_dialect, k, length)
    statistic, limit = _joint(writer.write(_beginnings(params)), params)
    assert statistic < limit
    assert _about(writer, _expected(k, params, lambda before: exact(DIALECT[before], params)))


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
