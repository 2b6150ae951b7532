"""The decoder against transformers' own, in float32 token for token, however the work is cut into steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from transformers import GenerationConfig

from runtime.nn.model import Transformer
from runtime.step.step import Segment
from runtime.store.resolve import resolve_model
from tests.models.checkpoints import FAMILIES
from tests.models.families.writing import reference_model
from tests.models.step_driver import Running, generate, greedy, open_transformer, random_tokens, run

EMBEDDED = "embedded"
TOKENS = 64
ROUNDING = 1e-5  # of a log-probability in float32: two tokens that score alike may change places
LENGTHS = (5, 23, 61, 120)  # of prompts: up to seven of the families' windows


class Subject(NamedTuple):
    """A checkpoint, transformers' float32 model of it, and prompts for it."""

    folder: Path
    reference: Any
    prompts: list[list[int]]


@pytest.fixture(scope="session", params=[EMBEDDED, *FAMILIES])
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    if request.param == EMBEDDED:
        folder = resolve_model(None)
    else:
        folder = tmp_path_factory.mktemp(request.param)
        FAMILIES[request.param](folder)
    reference = reference_model(folder)
    # The embedded model knows 4096 tokens; those of the families are bytes and few others.
    # With these seeds the best token leads the next by at least 1e-4 of a log-probability, wherever it is drawn: what
    # is compared here token for token is not decided by how sums are rounded.
    prompts = [random_tokens(n, below=256, seed=n + 2) for n in LENGTHS]
    return Subject(folder, reference, prompts)


@pytest.fixture(scope="session")
def alone(subject: Subject) -> list[Running]:
    """Each prompt by itself on a clean slot, prefilled at once."""
    model = open_transformer(subject.folder)
    running = [Running(slot, prompt) for slot, prompt in enumerate(subject.prompts)]
    for one in running:
        generate(model, [one], TOKENS)
    return running


@pytest.fixture(scope="session")
def solo(alone: list[Running]) -> list[list[int]]:
    """The tokens that each prompt must get in any company."""
    return [running.output for running in alone]


@torch.inference_mode()
def _reference_logprobs(reference: Any, tokens: list[int]) -> torch.Tensor:  # noqa: ANN401
    """`[tokens, vocab]`."""
    logits: torch.Tensor = reference(torch.tensor([tokens])).logits[0]
    return logits.float().log_softmax(-1)


# --- float32 ------------------------------------------------------------------------------------------------------


def test_tokens_are_those_of_transformers(subject: Subject, solo: list[list[int]]) -> None:
    """Or score as high there, to within the rounding of sums that are made in another order."""
    for prompt, output in zip(subject.prompts, solo, strict=True):
        assert len(output) == TOKENS
        scores = _reference_logprobs(subject.reference, prompt + output[:-1])[len(prompt) - 1 :]
        assert (scores.max(-1).values - scores[range(TOKENS), output]).max() <= ROUNDING


def test_tokens_are_those_of_generate(subject: Subject, solo: list[list[int]]) -> None:
    endless = GenerationConfig(max_new_tokens=16, do_sample=False, eos_token_id=None, pad_token_id=0)
    prompt = torch.tensor([subject.prompts[1]])
    subject.reference.generation_config = endless
    generated = subject.reference.generate(prompt, attention_mask=torch.ones_like(prompt))
    assert solo[1][:16] == generated[0, prompt.shape[1] :].tolist()


def test_greedy_text_wanders(subject: Subject, solo: list[list[int]]) -> None:
    """Or the tests here would compare little."""
    assert len({token for output in solo for token in output}) > 8


def test_logprobs_are_those_of_transformers(subject: Subject, alone: list[Running]) -> None:
    for running in alone:
        expected = _reference_logprobs(subject.reference, running.prompt + running.output)[len(running.prompt) - 1 :]
        theirs = expected[range(TOKENS), running.output]
        ours = torch.tensor([entry.logprob for entry in running.logprobs if entry is not None])
        torch.testing.assert_close(ours, theirs, atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("chunk", [1, 7])
def test_a_prompt_may_be_read_in_chunks(subject: Subject, solo: list[list[int]], chunk: int) -> None:
    model = open_transformer(subject.folder, slots=1)
    assert generate(model, [Running(0, subject.prompts[2], chunk)], 8)[0] == solo[2][:8]


def test_requests_share_steps(subject: Subject, solo: list[list[int]]) -> None:
    """Short prompts decode while long ones are still being read, and all end apart from one another."""
    model = open_transformer(subject.folder)
    chunks = (5, 4, 7, 11)
    together = [Running(slot, prompt, chunks[slot]) for slot, prompt in enumerate(subject.prompts)]
    assert generate(model, together, TOKENS) == solo


def test_a_slot_used_before_by_a_longer_sequence_is_as_good_as_new(subject: Subject, solo: list[list[int]]) -> None:
    model = open_transformer(subject.folder, slots=1)
    generate(model, [Running(0, subject.prompts[3])], 4)
    assert generate(model, [Running(0, subject.prompts[0], chunk=2)], 16)[0] == solo[0][:16]


def test_kv_of_an_earlier_run_stands_in_for_its_tokens(subject: Subject, solo: list[list[int]]) -> None:
    model = open_transformer(subject.folder, slots=1)
    prompt = subject.prompts[2]
    run(model, [Segment(0, 0, [*prompt[:40], 1, 2, 3])])  # a sequence that goes on differently
    assert generate(model, [Running(0, prompt, committed=40)], 16)[0] == solo[2][:16]


def test_another_prefix_gives_another_text(subject: Subject, solo: list[list[int]]) -> None:
    model = open_transformer(subject.folder, slots=1)
    prompt = subject.prompts[2]
    run(model, [Segment(0, 0, random_tokens(60, below=256, seed=99))])
    assert generate(model, [Running(0, prompt, committed=60)], 16)[0] != solo[2][:16]


# --- non-finite rows ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampled", [True, False])
def test_a_row_that_was_never_written_is_noticed(subject: Subject, sampled: bool) -> None:
    model = open_transformer(subject.folder, slots=2)
    sample = greedy(31) if sampled else None
    over_poison = Segment(0, 30, [1], sample=sample)
    sound = Segment(1, 0, subject.prompts[0], sample=sample)
    bad, good = run(model, [over_poison, sound]).segments
    assert (bad.computed, bad.finite, bad.tokens) == (False, False, ())
    assert good.computed
    assert bool(good.tokens) == sampled


# --- bfloat16 -----------------------------------------------------------------------------------------------------


def _errors(model: Transformer, text: list[int], exact: torch.Tensor) -> torch.Tensor:
    """Return how far the log-probabilities after prefixes of `text` are from `exact`, over its 20 likeliest tokens."""
    errors = []
    for end in range(20, len(text), 20):
        (token,) = run(model, [Segment(0, 0, text[:end], sample=greedy(end, logprobs=20))]).segments[0].tokens
        assert token.logprobs is not None
        errors += [logprob - exact[end - 1, token_id].item() for token_id, logprob in token.logprobs.top]
    return torch.tensor(errors).abs()


def test_bfloat16_errs_no_more_than_transformers_does(subject: Subject) -> None:
    text = subject.prompts[3]
    exact = _reference_logprobs(subject.reference, text)
    theirs_model = reference_model(subject.folder, torch.bfloat16)
    theirs = (_reference_logprobs(theirs_model, text) - exact).abs()
    theirs = torch.stack([theirs[end - 1][exact[end - 1].topk(20).indices] for end in range(20, len(text), 20)])
    ours = _errors(open_transformer(subject.folder, slots=1, dtype=torch.bfloat16), text, exact)
    assert ours.isfinite().all()
    assert ours.mean() < 1.5 * theirs.mean() + 0.01


def test_bfloat16_generates(subject: Subject) -> None:
    model = open_transformer(subject.folder, dtype=torch.bfloat16)
    outputs = generate(model, [Running(slot, prompt, 16) for slot, prompt in enumerate(subject.prompts)], 8)
    assert [len(output) for output in outputs] == [8] * len(LENGTHS)
