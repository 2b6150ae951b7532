"""Pooled states and the scores of prompts against transformers', in float32, however a prompt is cut into chunks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from runtime.nn.model import Transformer
from runtime.step.prompt_rows import gather
from runtime.step.prompt_rows.pooled import PooledState
from runtime.step.prompt_rows.wanted import NOTHING, Pooling, PromptOutputs, RowsGiven, TokenScore
from runtime.step.step import Segment
from tests.models.checkpoints import FAMILIES
from tests.models.families.writing import reference_model
from tests.models.step_driver import greedy, open_transformer, random_tokens, run

CUTS = ([61], [1, 60], [20, 20, 21])  # the rows of each chunk: the whole, a first row alone, pieces
CLOSE = 1e-4  # float32, with sums in another order


class Subject(NamedTuple):
    """A checkpoint, transformers' float32 model of it, and a prompt longer than the families' windows."""

    folder: Path
    reference: Any
    prompt: list[int]


@pytest.fixture(scope="module", params=FAMILIES)
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    folder = tmp_path_factory.mktemp(request.param)
    FAMILIES[request.param](folder)
    reference = reference_model(folder)
    return Subject(folder, reference, random_tokens(61, below=256, seed=7))


def read(
    model: Transformer, prompt: Sequence[int], outputs: PromptOutputs, cut: Sequence[int], slot: int = 0
) -> list[RowsGiven]:
    """Return what each chunk of a prompt gives that is read alone."""
    given, start = [], 0
    for rows in cut:
        wanted = outputs.of_rows(prompt[start:], rows)
        segment = Segment(slot, start, prompt[start : start + rows], wanted=wanted)
        (result,) = run(model, [segment]).segments
        assert result.computed
        given.append(result.given)
        start += rows
    return given


def pooled(given: Sequence[RowsGiven], pooling: Pooling) -> list[float]:
    state = PooledState(pooling)
    for chunk in given:
        state.add(chunk)
    return list(state.vector())


def scores_of(given: Sequence[RowsGiven]) -> list[TokenScore]:
    return [score for chunk in given for score in chunk.scores]


@torch.inference_mode()
def reference_states(subject: Subject) -> torch.Tensor:
    """`[tokens, hidden]`, after the final norm."""
    states: torch.Tensor = subject.reference.model(torch.tensor([subject.prompt])).last_hidden_state[0]
    return states


@torch.inference_mode()
def reference_logprobs(subject: Subject) -> torch.Tensor:
    """`[tokens, vocab]`."""
    logits: torch.Tensor = subject.reference(torch.tensor([subject.prompt])).logits[0]
    return logits.float().log_softmax(-1)


def test_pooled_states_are_those_of_transformers(subject: Subject) -> None:
    model, states = open_transformer(subject.folder), reference_states(subject)
    for pooling, expected in ((Pooling.MEAN, states.mean(0)), (Pooling.LAST, states[-1])):
        for cut in CUTS:
            found = pooled(read(model, subject.prompt, PromptOutputs(pooling), cut), pooling)
            torch.testing.assert_close(torch.tensor(found), expected, rtol=CLOSE, atol=CLOSE)


def test_scores_are_those_of_transformers(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces of logits that are smaller than a chunk, and whose ends are not those of chunks."""
    model, expected = open_transformer(subject.folder), reference_logprobs(subject)
    monkeypatch.setattr(gather, "PIECE_BYTES", 7 * 4 * model.config.vocab_size)
    for cut in CUTS:
        scores = scores_of(read(model, subject.prompt, PromptOutputs(alternatives=3), cut))
        assert len(scores) == len(subject.prompt) - 1
        for row, token_id, score in zip(expected, subject.prompt[1:], scores, strict=False):
            assert score.logprobs.logprob == pytest.approx(row[token_id].item(), abs=5e-4)
            likelier = [(row > row[token_id] + sign * 4e-4).sum().item() for sign in (1, -1)]
            assert likelier[0] < score.rank <= likelier[1] + 1  # but for tokens that are as good as equally likely
            for token, logprob in score.logprobs.top:
                assert logprob == pytest.approx(row[token].item(), abs=5e-4)
            assert [logprob for _, logprob in score.logprobs.top] == pytest.approx(
                row.topk(3).values.tolist(), abs=5e-4
            )


# --- of one family: who is in the step beside it ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Transformer:
    folder = tmp_path_factory.mktemp("one")
    next(iter(FAMILIES.values()))(folder)
    return open_transformer(folder)


def chunk(slot: int, outputs: PromptOutputs, tokens: int = 40) -> Segment:
    """A whole prompt, which no other slot has."""
    prompt = random_tokens(tokens, below=256, seed=slot)
    return Segment(slot, 0, prompt, wanted=outputs.of_rows(prompt, len(prompt)))


def close(a: RowsGiven, b: RowsGiven) -> None:
    assert a.rows == b.rows
    assert a.state == pytest.approx(b.state, rel=1e-4, abs=1e-4)
    assert [score.logprobs.logprob for score in a.scores] == pytest.approx(
        [score.logprobs.logprob for score in b.scores], abs=1e-4
    )
    assert len(a.scores) == len(b.scores)


ASKED = (PromptOutputs(Pooling.MEAN, 2), PromptOutputs(alternatives=0), PromptOutputs(Pooling.LAST))


def test_neighbours_in_a_step_get_what_they_get_alone(model: Transformer) -> None:
    plain = Segment(3, 0, random_tokens(9, below=256, seed=3), sample=greedy(9))
    alone = [run(model, [chunk(slot, asked)]).segments[0] for slot, asked in enumerate(ASKED)]
    together = run(model, [*(chunk(slot, asked) for slot, asked in enumerate(ASKED)), plain]).segments
    for one, other in zip(alone, together, strict=False):
        close(one.given, other.given)
    assert together[-1].given == NOTHING
    assert together[-1].tokens == run(model, [plain]).segments[0].tokens


@pytest.mark.parametrize("victim", range(3))
@pytest.mark.parametrize("layer", [0, 1])
def test_a_cancel_takes_nothing_from_its_neighbours(model: Transformer, victim: int, layer: int) -> None:
    alone = [run(model, [chunk(slot, asked)]).segments[0] for slot, asked in enumerate(ASKED)]
    step = [chunk(slot, asked) for slot, asked in enumerate(ASKED)]
    results = run(model, step, cancels={layer: [step[victim]]}).segments
    assert not results[victim].computed
    assert results[victim].given == NOTHING
    for i in {0, 1, 2} - {victim}:
        close(results[i].given, alone[i].given)


def test_what_is_cancelled_after_the_last_layer_is_scored_no_further(
    model: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are whole, so they are committed; the logits of the rest of them are computed for nobody."""
    monkeypatch.setattr(gather, "PIECE_BYTES", 10 * 4 * model.config.vocab_size)
    step = [chunk(slot, PromptOutputs(alternatives=0)) for slot in range(2)]
    pieces: list[int] = []
    compute = model.compute_logits

    def counted(states: torch.Tensor) -> torch.Tensor:
        pieces.append(len(states))
        if len(pieces) == 2:
            step[0].mark.set(lambda: 0.0)
        return compute(states)

    monkeypatch.setattr(model, "compute_logits", counted)
    cancelled, other = run(model, step).segments
    assert pieces == [10, 10, 10, 10, 10, 9]  # two of the first's, four of the second's
    assert cancelled.computed
    assert cancelled.given == NOTHING
    assert len(other.given.scores) == 39
    monkeypatch.undo()
    close(other.given, run(model, [chunk(1, PromptOutputs(alternatives=0))]).segments[0].given)


def test_numbers_that_are_not_finite_fail_their_segment_alone(
    model: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = [chunk(slot, PromptOutputs(alternatives=1)) for slot in range(2)]
    compute, calls = model.compute_logits, []

    def spoilt(states: torch.Tensor) -> torch.Tensor:
        calls.append(len(states))
        return compute(states) * (math.nan if len(calls) == 1 else 1.0)

    monkeypatch.setattr(model, "compute_logits", spoilt)
    first, second = run(model, step).segments
    assert (first.finite, second.finite) == (False, True)
