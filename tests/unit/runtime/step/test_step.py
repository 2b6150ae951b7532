"""A cancel at every layer boundary, of every subset of segments: it touches those alone."""

from __future__ import annotations

from itertools import chain, combinations

import pytest
import torch

from runtime.nn.model import Transformer
from runtime.sampling.params import SamplingParams
from runtime.sampling.tokens import DraftToken, SampleSpec
from runtime.step.step import CancelMark, Segment, SegmentResult, run_step
from runtime.testing.simulated import SimulatedModel
from tests.models.checkpoints import FAMILIES
from tests.models.step_driver import (
    RecordingModel,
    Running,
    Ticks,
    generate,
    greedy,
    open_transformer,
    random_tokens,
    run,
)
from tests.rows import every_row

LAYERS = 3  # of every model here
SUBSETS = list(chain.from_iterable(combinations(range(3), size) for size in range(4)))
EVERY_BOUNDARY = every_row("layer", range(LAYERS + 1))  # 0: cancelled before the step
EVERY_SUBSET = every_row("cancelled", SUBSETS)


def _segments(count: int = 3) -> list[Segment]:
    return [Segment(slot, 0, [7] * (slot + 1), sample=greedy(slot + 1)) for slot in range(count)]


# --- the mark -----------------------------------------------------------------------------------------------------


def test_the_first_cancel_counts() -> None:
    mark = CancelMark()
    assert mark.at is None
    mark.set(lambda: 1.5)
    mark.set(lambda: 2.5)
    assert mark.at == 1.5


def test_segments_do_not_share_a_mark() -> None:
    first, second = Segment(0, 4, [1, 2]), Segment(0, 4, [1, 2])
    first.mark.set(lambda: 0)
    assert second.mark.at is None
    assert first.end == 6


def test_pieces_of_several_segments_touch_no_state_of_one_another() -> None:
    """They may be computed at once: each segment goes on from what it left itself."""
    first = Segment(0, 5, [7] * 40, state=1, next_states=((30, 2), (40, 3)))
    second = Segment(1, 0, [7] * 40, next_states=((40, 4),))
    pieces = first.piece(0, 32), first.piece(32, 40), second.piece(0, 24), second.piece(24, 40)
    expected = [(1, ((30, 2), (32, 3))), (3, ((8, 3),)), (None, ((24, 4),)), (4, ((16, 4),))]
    assert [(one.state, one.next_states) for one in pieces] == expected


# --- what the model is asked to do --------------------------------------------------------------------------------


def test_a_step_without_cancels() -> None:
    model = RecordingModel()
    result = run(model, _segments(2))
    assert model.calls == [(name, [0, 1]) for name in ("begin", "layer 0", "layer 1", "layer 2", "finish")]
    assert result.layers_run == LAYERS
    assert [segment.tokens[0].token_id for segment in result.segments if segment.tokens] == [0, 1]
    assert result.started_at < result.finished_at


def test_a_step_yields_once_in_each_layer() -> None:
    assert len(list(run_step(RecordingModel(), _segments(), Ticks()))) == LAYERS


@EVERY_SUBSET
@EVERY_BOUNDARY
def test_rows_are_dropped_at_the_next_boundary(layer: int, cancelled: tuple[int, ...]) -> None:
    model = RecordingModel()
    segments = _segments()
    result = run(model, segments, {layer: [segments[i] for i in cancelled]})
    survivors = [i for i in range(3) if i not in cancelled]
    everybody = [0, 1, 2]
    if layer == LAYERS:  # too late for anything to be saved
        survivors = everybody
    ran = [(f"layer {i}", everybody if i < layer else survivors) for i in range(LAYERS)]
    if not survivors:
        expected = [("begin", everybody), *ran[:layer], ("abandon", everybody)]
    elif survivors != everybody:
        expected = [("begin", everybody), *ran[:layer], ("shrink", survivors), *ran[layer:], ("finish", survivors)]
    else:
        expected = [("begin", everybody), *ran, ("finish", everybody)]
    assert model.calls == expected
    assert result.layers_run == (LAYERS if survivors else layer)


@EVERY_SUBSET
@EVERY_BOUNDARY
def test_results_say_what_became_of_each_segment(layer: int, cancelled: tuple[int, ...]) -> None:
    segments = _segments()
    result = run(RecordingModel(), segments, {layer: [segments[i] for i in cancelled]})
    for i, segment in enumerate(result.segments):
        dropped = i in cancelled and layer < LAYERS
        assert segment.computed != dropped
        assert segment.finite
        assert segment.layers_after_cancel == (1 if i in cancelled and layer > 0 else 0)
        if dropped:
            assert not segment.tokens
        else:
            assert segment.last_kernel_at is not None
            assert result.started_at < segment.last_kernel_at <= result.finished_at


def test_last_kernel_is_the_end_of_the_layer_that_was_running() -> None:
    """By the clock's looks: start 1, layers 2 to 4, the mark in front of its layer's end."""
    segments = _segments()
    result = run(RecordingModel(), segments, {0: segments[:1], 2: segments[1:2]})
    assert [segment.mark.at for segment in segments] == [1, 4, None]  # start is now 2, the layers end at 3, 5 and 6
    assert [segment.last_kernel_at for segment in result.segments] == [None, 5, 7]
    assert (result.started_at, result.finished_at) == (2, 8)


def test_cancels_in_several_layers_each_take_effect_at_the_next_boundary() -> None:
    model = RecordingModel()
    segments = _segments()
    run(model, segments, {1: segments[2:], 2: [segments[2], segments[0]]})
    assert [call for call in model.calls if call[0] == "shrink"] == [("shrink", [0, 1]), ("shrink", [1])]


def test_layers_that_a_device_has_still_to_finish_are_counted() -> None:
    segments = _segments()
    result = run(RecordingModel(unfinished=2), segments, {2: segments[:1]})
    assert [segment.layers_after_cancel for segment in result.segments] == [2, 0, 0]


def test_nothing_is_unfinished_before_the_first_layer() -> None:
    segments = _segments(1)
    result = run(RecordingModel(unfinished=2), segments, {0: segments})
    assert result.segments == (SegmentResult(computed=False, last_kernel_at=None),)


def test_a_non_finite_segment_is_alone_in_it() -> None:
    result = run(RecordingModel(broken={1}), _segments())
    assert [(s.computed, s.finite) for s in result.segments] == [(True, True), (False, False), (True, True)]
    assert [[t.token_id for t in s.tokens] for s in result.segments] == [[0], [], [2]]


def test_what_the_model_raises_is_raised() -> None:
    def fail(index: int) -> None:
        raise RuntimeError(f"in layer {index}")

    with pytest.raises(RuntimeError, match="in layer 0"):
        run(RecordingModel(during=fail), _segments())


# --- survivors, on a model whose tokens are a function of the whole history ---------------------------------------


@EVERY_SUBSET
@EVERY_BOUNDARY
def test_survivors_of_the_simulation_are_untouched(layer: int, cancelled: tuple[int, ...]) -> None:
    model = SimulatedModel(slots=3, context=64, num_layers=LAYERS)
    prompts = [random_tokens(4 + 3 * i, below=1000, seed=i) for i in range(3)]
    segments = [Segment(i, 0, prompt, sample=greedy(len(prompt))) for i, prompt in enumerate(prompts)]
    result = run(model, segments, {layer: [segments[i] for i in cancelled]})
    for i, prompt in enumerate(prompts):
        running = Running(i, prompt)
        if result.segments[i].computed:  # go on from the rows of this step, or else again from none
            running.commit(segments[i], result.segments[i].tokens)
        generate(model, [running], 4)
        assert running.output == model.continuation(prompt, len(running.output))


def test_the_simulation_notices_rows_that_were_dropped() -> None:
    """Or it could not vouch for survivors: committing what was not computed must show."""
    model = SimulatedModel(slots=1, context=64, num_layers=LAYERS)
    prompt = [1, 2, 3]
    segment = Segment(0, 0, prompt[:2])
    assert not run(model, [segment], {1: [segment]}).segments[0].computed
    output = generate(model, [Running(0, prompt, committed=2)], 4)[0]
    assert output != model.continuation(prompt, 4)


# --- survivors, on the real model ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def transformer(tmp_path_factory: pytest.TempPathFactory) -> Transformer:
    folder = tmp_path_factory.mktemp("mistral")  # grouped heads, and a window shorter than the prompts
    FAMILIES["mistral"](folder)
    model = open_transformer(folder)
    assert model.num_layers == LAYERS
    return model


def _mixed(transformer: Transformer) -> list[Running]:
    """Three prefilled requests: one that decodes, one in the middle of its prompt, one before its prompt's end."""
    sizes = ((9, 9), (70, 25), (37, 30))  # of prompt and chunk
    running = [
        Running(slot, random_tokens(length, below=256, seed=length), chunk)
        for slot, (length, chunk) in enumerate(sizes)
    ]
    segments = [one.next_segment() for one in running]
    for one, segment, result in zip(running, segments, run(transformer, segments).segments, strict=True):
        one.commit(segment, result.tokens)
    return running


@pytest.fixture(scope="module")
def solo(transformer: Transformer) -> list[list[int]]:
    return [generate(transformer, [one], 6)[0] for one in (Running(3, two.prompt) for two in _mixed(transformer))]


@EVERY_SUBSET
@EVERY_BOUNDARY
def test_survivors_of_the_model_are_untouched(
    transformer: Transformer, solo: list[list[int]], layer: int, cancelled: tuple[int, ...]
) -> None:
    """And the dropped ones find their committed rows as they were."""
    running = _mixed(transformer)
    segments = [one.next_segment() for one in running]
    result = run(transformer, segments, {layer: [segments[i] for i in cancelled]})
    for i, (one, segment) in enumerate(zip(running, segments, strict=True)):
        assert result.segments[i].computed == (i not in cancelled or layer == LAYERS)
        if result.segments[i].computed:
            one.commit(segment, result.segments[i].tokens)
    for one, expected in zip(running, solo, strict=True):
        assert generate(transformer, [one], 6 - len(one.output))[0] == expected


def test_a_sampled_and_an_unsampled_segment_share_a_step(transformer: Transformer) -> None:
    sampled: SampleSpec = greedy(2)
    tokens = run(transformer, [Segment(0, 0, [1, 2]), Segment(1, 0, [1, 2], sample=sampled)]).segments
    assert not tokens[0].tokens
    assert tokens[1].tokens


def _asking(transformer: Transformer) -> list[Segment]:
    """Three requests that ask for much of the sampler, each differently; the last two have drafts to be judged."""
    params = [
        SamplingParams(0.9, top_p=0.9, presence_penalty=0.5, frequency_penalty=0.5, seed=1, logprobs=2),
        SamplingParams(1.5, min_p=0.01, repetition_penalty=1.2, logit_bias=((5, 3.0),), seed=2),
        SamplingParams(temperature=0, repetition_penalty=1.3, logit_bias=((6, 1.0), (7, 1.0)), min_tokens=9),
    ]
    prompts = [random_tokens(9 + slot, below=256, seed=slot) for slot in range(3)]
    for slot, prompt in enumerate(prompts):
        assert run(transformer, [Segment(slot, 0, prompt[:-1])]).segments[0].computed
    source = torch.ones(transformer.config.vocab_size)
    drafts = [[], [DraftToken(1, source), DraftToken(2)], [DraftToken(3)]]
    return [
        Segment(
            slot,
            len(prompt) - 1,
            [prompt[-1], *(draft.token_id for draft in drafts)],
            sample=SampleSpec(params[slot], len(prompt), 4, prompt, end_ids=(3, 4)),
            drafts=drafts,
        )
        for slot, (prompt, drafts) in enumerate(zip(prompts, drafts, strict=True))
    ]


@EVERY_SUBSET
def test_survivors_are_drawn_as_they_would_be_alone(transformer: Transformer, cancelled: tuple[int, ...]) -> None:
    expected = [run(transformer, [segment]).segments[0].tokens for segment in _asking(transformer)]
    segments = _asking(transformer)
    result = run(transformer, segments, {1: [segments[i] for i in cancelled]})
    for i, segment in enumerate(result.segments):
        assert segment.computed == (i not in cancelled)
        if segment.computed:
            assert [token.token_id for token in segment.tokens] == [token.token_id for token in expected[i]]
            assert all((token.logprobs is None) == (i > 0) for token in segment.tokens)
