"""The MTP module against plain PyTorch: rows in bulk, chained, beside others, after trims, and from the middle on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from bench.training.models import MtpModule as DeepseekModule
from runtime.loading.served import Proposer
from runtime.nn.model import Transformer
from runtime.sampling.params import SamplingParams
from runtime.sampling.tokens import SampleSpec
from runtime.step.step import Segment
from runtime.store.resolve import resolve_model
from tests.models.mtp_checkpoints import (
    Reference,
    write_deepseek,
    write_deepseek3,
    write_glm4_moe,
    write_mimo,
    write_nemotron,
    write_qwen3_5,
    write_qwen3_5_moe,
    write_qwen3_next,
)
from tests.models.speculation_driver import open_pair, poison
from tests.models.step_driver import random_tokens, run

PROMPT = random_tokens(40, below=256, seed=1)
DRAFTS = [7, 200, 31]  # after PROMPT

assert_close = partial(torch.testing.assert_close, atol=2e-4, rtol=1e-4)  # of log-probabilities in float32


class Subject(NamedTuple):
    """A target with its module, and what they compute."""

    reference: Reference
    target: Transformer
    module: Transformer


WRITTEN = [
    write_deepseek,
    write_mimo,
    write_deepseek3,
    write_glm4_moe,
    write_qwen3_next,
    write_qwen3_5,
    write_qwen3_5_moe,
    write_nemotron,
]


@pytest.fixture(scope="module", params=WRITTEN)
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    folder = tmp_path_factory.mktemp(request.param.__name__)
    return open_subject(folder, request.param(folder))


def open_subject(folder: Path, reference: Reference) -> Subject:
    target, module = open_pair(folder, Proposer.MTP)
    assert module is not None
    return Subject(reference, target, module)


@pytest.fixture
def subject(opened: Subject) -> Subject:
    """With nothing left of an earlier test."""
    poison(opened.target)
    poison(opened.module)
    return opened


def draft(slot: int, start: int, tokens: Sequence[int], *, first: int = 1) -> Segment:
    """Rows of the module, of which the last draws a draft from its whole distribution."""
    position = start + len(tokens)
    spec = SampleSpec(SamplingParams(seed=1), position=position, generated=0, for_rejection=True)
    return Segment(slot, start, tokens, sample=spec, first=first)


def read(model: Transformer, slot: int, tokens: Sequence[int], start: int = 0, *, first: int = 0) -> None:
    (result,) = run(model, [Segment(slot, start, tokens, first=first)]).segments
    assert result.computed


def logprobs(module: Transformer, *segments: Segment) -> torch.Tensor:
    """Of the drafts that a step's segments draw, `[segments, vocab]`."""
    rows = []
    for result in run(module, segments).segments:
        (token,) = result.tokens
        assert token.distribution is not None
        rows.append(token.distribution.log())
    return torch.stack(rows)


def test_rows_in_bulk(subject: Subject) -> None:
    read(subject.target, 2, PROMPT[:-1])
    found = logprobs(subject.module, draft(2, 1, PROMPT[1:]))
    assert_close(found, subject.reference.drafts(PROMPT, []))


@pytest.mark.parametrize("piece", [1, 7])
def test_rows_in_pieces(subject: Subject, piece: int) -> None:
    """Each is read by the target, and then, a token behind it, by the module."""
    known = len(PROMPT) - 1
    for start in range(0, known, piece):
        end = min(start + piece, known)
        read(subject.target, 0, PROMPT[start:end], start)
        if end < known:
            read(subject.module, 0, PROMPT[start + 1 : end + 1], start + 1, first=1)
    found = logprobs(subject.module, draft(0, start + 1, PROMPT[start + 1 :]))
    assert_close(found, subject.reference.drafts(PROMPT, []))


def chain(subject: Subject, slot: int, tokens: Sequence[int], drafts: Sequence[int], *, first: int = 1) -> torch.Tensor:
    """Log-probabilities after `tokens`, of which the module has read none, and after each of `drafts`."""
    rows = [logprobs(subject.module, draft(slot, first, tokens[first:], first=first))]
    for i, token in enumerate(drafts):
        rows.append(logprobs(subject.module, draft(slot, len(tokens) + i, [token], first=first)))
    return torch.cat(rows)


def test_chained_rows_stand_on_the_modules_own_output(subject: Subject) -> None:
    read(subject.target, 1, PROMPT[:-1])
    found = chain(subject, 1, PROMPT, DRAFTS)
    assert_close(found, subject.reference.drafts(PROMPT, DRAFTS))


def test_a_module_may_begin_in_the_middle(subject: Subject) -> None:
    """As it does where the target's KV was moved in: there are no states before."""
    read(subject.target, 1, PROMPT[:-1])
    assert subject.target.states is not None
    subject.target.states.write(subject.target.context + torch.arange(22), torch.tensor(torch.nan))
    found = chain(subject, 1, PROMPT, DRAFTS, first=23)
    assert_close(found, subject.reference.drafts(PROMPT, DRAFTS, first=23))


def test_sequences_share_steps(subject: Subject) -> None:
    """Three of them, of which one is at its first draft while the others are at theirs."""
    texts = [PROMPT[:12], PROMPT[5:], PROMPT[20:28]]
    run(subject.target, [Segment(slot, 0, text[:-1]) for slot, text in enumerate(texts)])
    first = logprobs(subject.module, *(draft(slot, 1, texts[slot][1:]) for slot in (0, 1)))
    later = logprobs(
        subject.module,
        *(draft(slot, len(texts[slot]), DRAFTS[slot : slot + 1]) for slot in (0, 1)),
        draft(2, 1, texts[2][1:]),
    )
    expected = [subject.reference.drafts(text, DRAFTS[slot : slot + 1]) for slot, text in enumerate(texts)]
    assert_close(first, torch.stack([expected[0][0], expected[1][0]]))
    assert_close(later, torch.stack([expected[0][1], expected[1][1], expected[2][0]]))


def test_after_a_trim_the_rows_are_the_targets_again(subject: Subject) -> None:
    """Two drafts are rejected: the target has gone on differently, and the module reads what it says."""
    read(subject.target, 3, PROMPT[:-1])
    chain(subject, 3, PROMPT, DRAFTS)
    grown = [*PROMPT, DRAFTS[0], 99]
    read(subject.target, 3, [PROMPT[-1], *DRAFTS], len(PROMPT) - 1)  # verifies; the first is accepted
    found = [logprobs(subject.module, draft(3, len(PROMPT), grown[len(PROMPT) :]))]
    found += [logprobs(subject.module, draft(3, len(grown) + i, [token])) for i, token in enumerate(DRAFTS)]
    assert_close(torch.cat(found), subject.reference.drafts(grown, DRAFTS))


def test_neighbours_of_a_cancelled_draft_go_on(subject: Subject) -> None:
    run(subject.target, [Segment(slot, 0, PROMPT[:-1]) for slot in range(2)])
    leaver, stayer = draft(0, 1, PROMPT[1:]), draft(1, 1, PROMPT[1:])
    leaver.mark.set(lambda: 0.0)
    gone, there = run(subject.module, [leaver, stayer]).segments
    assert not gone.computed
    assert there.tokens[0].distribution is not None
    expected = subject.reference.drafts(PROMPT, [])[0]
    assert_close(there.tokens[0].distribution.log(), expected)


def test_what_was_never_there_is_noticed(subject: Subject) -> None:
    """The target has not read the last but one token, so its state is missing."""
    read(subject.target, 0, PROMPT[:-2])
    (result,) = run(subject.module, [draft(0, 1, PROMPT[1:])]).segments
    assert (result.computed, result.finite, result.tokens) == (False, False, ())


def test_the_embedded_module() -> None:
    """As it was trained: through `bench.training`'s own class."""
    folder = resolve_model(None)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    trained = DeepseekModule(model.config)
    trained.load_checkpoint({name: tensor.float() for name, tensor in load_file(folder / "mtp.safetensors").items()})
    subject = open_subject(folder, Reference(model, trained, raw=False))
    read(subject.target, 1, PROMPT[:-1])
    found = chain(subject, 1, PROMPT, DRAFTS)
    assert_close(found, subject.reference.drafts(PROMPT, DRAFTS))
