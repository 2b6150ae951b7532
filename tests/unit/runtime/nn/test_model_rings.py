"""Models whose windowed layers keep a ring, against transformers and against themselves without one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from transformers import AutoModelForCausalLM

from runtime.kv.cache import kv_bytes
from runtime.nn.model import Transformer
from runtime.sampling.tokens import DraftToken
from runtime.step.step import Segment
from runtime.step.transfer import Copy, Load, Save
from tests.models.checkpoints import FAMILIES
from tests.models.step_driver import Running, generate, greedy, open_transformer, pages_of, random_tokens, run

WINDOW, SLACK = 16, 24
CHUNK = SLACK // 2
PROMPT = random_tokens(150, below=256, seed=7)
TOKENS = 40
ROUNDING = 1e-5  # of a log-probability in float32


class Subject(NamedTuple):
    """A checkpoint of which some or all layers have a window, and what it says without rings."""

    folder: Path
    reference: Any
    solo: list[int]


@pytest.fixture(scope="module", params=["mistral", "qwen2-window", "gemma4-layer-inputs"])
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    folder = tmp_path_factory.mktemp(request.param)
    FAMILIES[request.param](folder)
    reference = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return Subject(folder, reference, solo(folder, PROMPT))


@pytest.fixture
def model(subject: Subject) -> Transformer:
    opened = open_transformer(subject.folder, slack=SLACK)
    assert opened.kv.rings is not None
    return opened


def solo(folder: Path, prompt: list[int]) -> list[int]:
    """Return what follows a prompt where every layer keeps all positions."""
    plain = open_transformer(folder)
    assert plain.kv.rings is None
    return generate(plain, [Running(0, prompt)], TOKENS)[0]


@torch.inference_mode()
def test_tokens_are_those_of_transformers_far_beyond_the_window(subject: Subject, model: Transformer) -> None:
    output = generate(model, [Running(0, PROMPT, chunk=CHUNK)], TOKENS)[0]
    logits = subject.reference(torch.tensor([PROMPT + output[:-1]])).logits[0, len(PROMPT) - 1 :]
    scores = logits.float().log_softmax(-1)
    chosen = scores.gather(1, torch.tensor(output)[:, None])[:, 0]
    assert (chosen >= scores.amax(dim=1) - ROUNDING).all()
    assert output == subject.solo


@pytest.mark.parametrize("chunk", [1, 5, SLACK])
def test_chunks_of_any_size_and_company_change_nothing(subject: Subject, model: Transformer, chunk: int) -> None:
    prompts = [PROMPT, PROMPT[:97], PROMPT[3:], PROMPT[:WINDOW]]
    outputs = generate(model, [Running(slot, prompt, chunk=chunk) for slot, prompt in enumerate(prompts)], TOKENS)
    assert outputs[0] == subject.solo
    assert outputs[1:] == [solo(subject.folder, prompt) for prompt in prompts[1:]]


def test_steps_that_were_cancelled_in_any_layer_leave_what_is_needed_to_go_on(
    subject: Subject, model: Transformer
) -> None:
    running = Running(0, PROMPT, chunk=CHUNK)
    while len(running.output) < TOKENS:
        for layer in range(model.num_layers):
            # With as many rows as a step may have: more than the chunk that is then committed.
            rows = [*PROMPT, *running.output, *PROMPT][running.committed :][:SLACK]
            cancelled = Segment(0, running.committed, rows)
            assert not run(model, [cancelled], {layer: [cancelled]}).segments[0].computed
        segment = running.next_segment()
        running.commit(segment, run(model, [segment]).segments[0].tokens)
    assert running.output == subject.solo


def test_rejected_drafts_leave_what_is_needed_to_go_on(subject: Subject, model: Transformer) -> None:
    running = Running(0, PROMPT, chunk=CHUNK)
    generate(model, [running], 1)
    while len(running.output) < TOKENS:
        wrong = [(subject.solo[len(running.output)] + 1) % 256] * (SLACK - 1)
        rows = [running.output[-1], *wrong]
        drafts = [DraftToken(token) for token in wrong]
        segment = Segment(0, running.committed, rows, sample=greedy(running.committed + 1), drafts=drafts)
        (token,) = run(model, [segment]).segments[0].tokens
        running.output.append(token.token_id)
        running.committed += 1
    assert running.output == subject.solo


def test_a_slot_is_trimmed_as_far_as_the_rings_reach_and_no_further(subject: Subject, model: Transformer) -> None:
    assert model.kv.rings is not None
    generate(model, [Running(0, PROMPT, chunk=CHUNK)], 1)
    least = model.kv.rings.least_length(len(PROMPT))
    assert WINDOW < least < len(PROMPT)
    changed = [*PROMPT[:least], *PROMPT[:20]]
    assert generate(model, [Running(0, changed, committed=least)], TOKENS)[0] == solo(subject.folder, changed)
    least = model.kv.rings.least_length(len(changed) + TOKENS - 1)
    with pytest.raises(RuntimeError, match="have lost"):
        run(model, [Segment(0, least - 1, [1])])


def test_a_prefix_is_copied_to_a_slot_that_had_something_else(subject: Subject, model: Transformer) -> None:
    assert model.kv.rings is not None
    generate(model, [Running(0, PROMPT, chunk=CHUNK), Running(1, PROMPT[30:], chunk=CHUNK)], 1)
    first, second = (pages_of(slot, model.context) for slot in range(2))
    least, shared = model.kv.rings.least_length(len(PROMPT)), len(PROMPT) - 5
    model.transfer(Copy(0, 1, 0, shared, least, first, second))
    changed = [*PROMPT[:shared], *PROMPT[:20]]
    other = Running(1, changed, chunk=CHUNK, committed=shared)
    assert generate(model, [other], TOKENS)[0] == solo(subject.folder, changed)


def test_a_copy_can_be_trimmed_as_far_as_was_asked_for(subject: Subject, model: Transformer) -> None:
    assert model.kv.rings is not None
    generate(model, [Running(0, PROMPT, chunk=CHUNK)], 1)
    first, second = (pages_of(slot, model.context) for slot in range(2))
    least = model.kv.rings.least_length(len(PROMPT))
    model.transfer(Copy(0, 1, 0, len(PROMPT), least, first, second))
    changed = [*PROMPT[:least], *PROMPT[:20]]
    other = Running(1, changed, chunk=CHUNK, committed=least)
    assert generate(model, [other], TOKENS)[0] == solo(subject.folder, changed)


def test_blocks_without_windows_serve_all_but_the_end_of_a_prefix(subject: Subject, model: Transformer) -> None:
    """They are saved when a ring has lost their rows, and loaded before those that are whole."""
    assert model.kv.rings is not None
    generate(model, [Running(0, PROMPT, chunk=CHUNK)], 1)
    end = len(PROMPT) - 10
    middle = model.kv.rings.first_needed(end)
    first, second = (pages_of(slot, model.context) for slot in range(2))
    part = model.transfer(Save(0, 0, middle, windows=False, pages=first))
    whole = model.transfer(Save(0, middle, end, pages=first))
    assert part is not None
    assert whole is not None
    assert part.shape[0] == model.kv.full_pieces
    assert whole.shape[0] == model.kv.row_shape[0]
    without = model.transfer(Save(0, middle, end, windows=False, pages=first))
    assert without is not None
    assert torch.equal(whole[model.kv.rings.full_pieces], without)
    model.transfer(Load(1, 0, part, pages=second))
    model.transfer(Load(1, middle, whole, pages=second))
    changed = [*PROMPT[:end], *PROMPT[:20]]
    other = Running(1, changed, chunk=CHUNK, committed=end)
    assert generate(model, [other], TOKENS)[0] == solo(subject.folder, changed)


def test_blocks_can_be_loaded_without_a_change_of_the_rings(subject: Subject, model: Transformer) -> None:
    generate(model, [Running(0, PROMPT, chunk=CHUNK), Running(1, PROMPT, chunk=CHUNK)], 1)
    other = generate(model, [Running(2, PROMPT[:WINDOW])], 1)
    assert other
    whole = model.transfer(Save(2, 0, WINDOW, pages=pages_of(2, model.context)))
    assert whole is not None
    model.transfer(Load(1, 0, whole, windows=False, pages=pages_of(1, model.context)))
    running = Running(1, [*PROMPT], chunk=CHUNK, committed=len(PROMPT) - 1)
    assert generate(model, [running], TOKENS)[0] == subject.solo


def test_a_step_with_more_rows_than_a_ring_bears_is_refused(model: Transformer) -> None:
    with pytest.raises(RuntimeError, match="have lost"):
        run(model, [Segment(0, 0, PROMPT[: SLACK + 1])])


def test_rings_take_the_memory_that_is_computed_before(subject: Subject) -> None:
    model = open_transformer(subject.folder, slots=2, context=256, slack=SLACK)
    full = open_transformer(subject.folder, slots=2, context=256)
    pieces = model.kv.row_shape[0]
    rows = model.kv.full_pieces * 256 + (pieces - model.kv.full_pieces) * (WINDOW + SLACK)
    assert model.kv.nbytes * pieces * 256 == full.kv.nbytes * rows
    assert kv_bytes(model.config, model.kv.dtype, slots=2, context=256) == full.kv.nbytes
    assert kv_bytes(model.config, model.kv.dtype, slots=2, context=256, slack=SLACK) == model.kv.nbytes
