"""Greedy drafting and verifying over real models, in float32: the text is plain decoding's, whoever drafts.

The embedded models are used because their drafts are accepted now and then, which random ones never are.  Nothing here
depends on how often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from runtime.loading.served import Proposer
from runtime.store.resolve import embedded_draft, resolve_model
from tests.models.speculation_driver import Speculating, open_pair, speculate
from tests.models.step_driver import Running, generate, open_transformer, random_tokens

if TYPE_CHECKING:
    from runtime.nn.model import Transformer

TOKENS = 20
LENGTHS = range(1, 9)  # of a draft
PROMPTS = 16


class Pair(NamedTuple):
    """Two models that are used by many tests: what an earlier one left in their slots must not matter."""

    proposer: Proposer
    target: Transformer
    drafter: Transformer | None


@pytest.fixture(scope="module", params=[Proposer.NGRAM, Proposer.DRAFT, Proposer.MTP])
def pair(request: pytest.FixtureRequest) -> Pair:
    draft = embedded_draft() if request.param is Proposer.DRAFT else None
    return Pair(request.param, *open_pair(resolve_model(None), request.param, draft=draft))


@pytest.fixture(scope="module")
def prompts() -> list[list[int]]:
    """Of many lengths, a single token too; every other one repeats itself, so that there is something to look up."""
    texts = [random_tokens(1 + 5 * (i % 9), below=4096, seed=i) for i in range(PROMPTS)]
    return [text * 2 if i % 2 else text for i, text in enumerate(texts)]


@pytest.fixture(scope="module")
def plain(prompts: list[list[int]]) -> list[list[int]]:
    """Return what a target that nobody drafts for says to each."""
    target = open_transformer(resolve_model(None), slots=1)
    return [generate(target, [Running(0, prompt)], TOKENS)[0] for prompt in prompts]


def test_a_text_alone_is_that_of_plain_decoding(pair: Pair, prompts: list[list[int]], plain: list[list[int]]) -> None:
    for i, (prompt, expected) in enumerate(zip(prompts, plain, strict=True)):
        one = Speculating(i % 4, prompt, pair.proposer, most=LENGTHS[i % len(LENGTHS)])
        assert speculate(pair.target, pair.drafter, [one], TOKENS) == [expected], (prompt, one.most)
        assert one.drafted > 0 or pair.proposer is Proposer.NGRAM  # a text that repeats nothing has nothing to copy


@pytest.mark.parametrize("most", LENGTHS)
def test_four_texts_in_one_batch(pair: Pair, prompts: list[list[int]], plain: list[list[int]], most: int) -> None:
    """One of them does not speculate, and long prompts are read while the others' drafts are verified."""
    some = [(most + 5 * slot) % PROMPTS for slot in range(4)]
    together = [
        Speculating(slot, prompts[i], pair.proposer, most=0 if slot == 1 else most, chunk=(30, 7)[slot % 2])
        for slot, i in enumerate(some)
    ]
    assert speculate(pair.target, pair.drafter, together, TOKENS) == [plain[i] for i in some]


def test_a_target_drafts_for_itself_without_fail(prompts: list[list[int]], plain: list[list[int]]) -> None:
    """Every draft is accepted, so both models' KV stands at every length that it can stand at."""
    target, drafter = open_pair(resolve_model(None), Proposer.DRAFT, draft=resolve_model(None))
    together = [Speculating(slot, prompts[slot], Proposer.DRAFT, most=3 + slot) for slot in range(4)]
    assert speculate(target, drafter, together, TOKENS) == plain[:4]
    assert [one.accepted for one in together] == [one.drafted for one in together]
