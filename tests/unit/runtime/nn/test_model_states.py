"""Models of recurrent layers: whatever becomes of a step, what it went on from serves again.

`tests.models.step_driver.with_states` names the buffers, one for each length of each slot.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from runtime.checkpoint.open import open_checkpoint
from runtime.kv.states import state_bytes
from runtime.loading.load import load_model
from runtime.loading.options import LoadOptions
from runtime.nn.ahead_model import AheadModel
from runtime.nn.model import Transformer
from runtime.sampling.tokens import DraftToken
from runtime.step.executor import InlineExecutor
from runtime.step.job import Burst, StepJob
from runtime.step.step import Segment
from runtime.step.transfer import Load, Save
from tests.models.checkpoints import FAMILIES
from tests.models.step_driver import (
    STATES_EVERY,
    Running,
    generate,
    greedy,
    open_transformer,
    pages_of,
    random_tokens,
    run,
    with_states,
)

PROMPT = random_tokens(50, below=256, seed=7)
TOKENS = 12


class Subject(NamedTuple):
    """A checkpoint, and what follows on the prompt."""

    folder: Path
    solo: list[int]


@pytest.fixture(scope="module", params=["lfm2", "qwen3-next", "granite-hybrid", "falcon-h1"])
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    folder = tmp_path_factory.mktemp(request.param)
    FAMILIES[request.param](folder)
    return Subject(folder, generate(open_transformer(folder), [Running(0, PROMPT)], TOKENS)[0])


@pytest.fixture
def model(subject: Subject) -> Transformer:
    return open_transformer(subject.folder)


def test_a_step_that_was_cancelled_in_any_layer_leaves_the_state_that_it_went_on_from(
    subject: Subject, model: Transformer
) -> None:
    running = Running(0, PROMPT, chunk=9)
    while len(running.output) < TOKENS:
        for layer in range(model.num_layers):
            rows = [*PROMPT, *running.output, *PROMPT][running.committed :][:15]
            cancelled, other = Segment(0, running.committed, rows), Segment(1, 0, PROMPT[:3])
            mine, others = run(model, [cancelled, other], {layer: [cancelled]}).segments
            assert (mine.computed, others.computed) == (False, True)
        segment = running.next_segment()
        running.commit(segment, run(model, [segment]).segments[0].tokens)
    assert running.output == subject.solo


@pytest.mark.parametrize("right", [0, 1, 3])
def test_any_number_of_accepted_drafts_leaves_their_state(subject: Subject, model: Transformer, right: int) -> None:
    running = Running(0, PROMPT)
    generate(model, [running], 1)
    while len(running.output) < TOKENS:
        done = len(running.output)
        drafted = [*subject.solo[done:][:right], *[(subject.solo[done] + 1) % 256] * 4]
        drafts = [DraftToken(token) for token in drafted]
        rows = [running.output[-1], *drafted]
        segment = Segment(0, running.committed, rows, sample=greedy(running.committed + 1), drafts=drafts)
        tokens = run(model, [segment]).segments[0].tokens
        running.output += [token.token_id for token in tokens]
        running.committed += len(tokens)
    assert running.output[:TOKENS] == subject.solo


def test_a_sequence_goes_on_from_a_state_that_was_moved_with_its_kv(subject: Subject, model: Transformer) -> None:
    assert model.buffers is not None
    length = 2 * STATES_EVERY
    run(model, [Segment(0, 0, [*PROMPT[:length], 1, 2, 3])])
    kv = model.transfer(Save(0, 0, length, pages=pages_of(0, model.context)))
    assert kv is not None
    model.transfer(Load(1, 0, kv, pages=pages_of(1, model.context)))
    moved, other = (with_states(model, [Segment(slot, length, [1])])[0].state for slot in (0, 1))
    assert moved is not None
    assert other is not None
    model.buffers.load(other, model.buffers.save(moved))
    assert generate(model, [Running(1, PROMPT, committed=length)], TOKENS)[0] == subject.solo


@pytest.mark.parametrize("ahead", [False, True])
async def test_steps_of_a_burst_take_turns_with_three_buffers(subject: Subject, ahead: bool) -> None:
    model = open_transformer(subject.folder, kind=AheadModel) if ahead else open_transformer(subject.folder)
    end = len(PROMPT)
    run(model, [Segment(0, 0, PROMPT[:-1])])
    (first,) = with_states(model, [Segment(0, end - 1, PROMPT[-1:], sample=greedy(end))])
    begun = with_states(model, [Segment(1, length, [1]) for length in (5, 6)])
    rows = [replace(first, spare_states=tuple(one.state for one in begun if one.state is not None))]
    result = await InlineExecutor(model).run_step(StepJob(rows, burst=Burst(TOKENS, TOKENS, lambda: True)))
    assert [token.token_id for token in result.segments[0].tokens] == subject.solo


def test_kernels_compute_the_layers_that_they_can(subject: Subject) -> None:
    checkpoint = open_checkpoint(subject.folder)
    memory = 129 * state_bytes(checkpoint.config, torch.float32)
    options = LoadOptions(subject.folder, slots=1, context=128, device="cpu", dtype="float32", state_memory=memory)
    loaded = load_model(options, checkpoint)
    assert loaded.native_layers < loaded.num_layers
    assert generate(loaded, [Running(0, PROMPT, chunk=7)], TOKENS)[0] == subject.solo
