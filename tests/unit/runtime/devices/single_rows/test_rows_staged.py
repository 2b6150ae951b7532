"""Steps whose attention is that of single rows, by Metal's kernels, against the same steps by segments.

There is no Mac here: the kernels are compiled as C++.
"""

from __future__ import annotations

import pytest
import torch

from runtime.devices.mps.rows import MetalRows
from runtime.devices.single_rows import rows
from runtime.devices.single_rows.rows import MOST_ROWS, MOST_ROWS_OF_ONE, stage_single_rows
from runtime.nn.model import Transformer
from runtime.sampling.params import SamplingParams
from runtime.sampling.staging import StagingBuffer
from runtime.sampling.tokens import DraftToken, SampleSpec
from runtime.step.step import Segment
from tests.fakes.devices.metal.compiled import Shim
from tests.models.layers.few_rows import MODELS, STEPS, check_kv, drop_between_layers, pair, read_prompts
from tests.models.layers.native_models import CONTEXT, CPU, difference, run, segments_of
from tests.models.step_driver import pages_of
from tests.models.step_driver import run as run_step


def models(name: str, shim: Shim, monkeypatch: pytest.MonkeyPatch) -> tuple[Transformer, Transformer]:
    """A model as it is, and one with the kernels; with few splits, for what stands in for a GPU is slow."""
    monkeypatch.setattr(rows, "PROGRAMS", 8)
    settings = MODELS[name]
    dim = settings["head_dim"] or settings["hidden_size"] // settings["num_attention_heads"]
    return pair(settings, row_kernels=MetalRows(shim, torch.float32, dim))


@pytest.mark.parametrize("name", MODELS)
def test_single_rows_are_what_they_are_by_segments(name: str, shim: Shim, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several sequences, grouped heads, windows in rings that come around, scores that are capped."""
    plain, model = models(name, shim, monkeypatch)
    with torch.inference_mode():
        lengths = read_prompts(plain, model, more=30)
        assert plain.kv.rings is None or min(lengths.values()) >= 39
        shim.launched.clear()
        for step in STEPS:
            segments = segments_of(step, lengths)
            reference, own = run(plain, segments), run(model, segments)
            assert own.single is not None
            assert not own.masks
            assert difference(own.hidden, reference.hidden) < 1e-5, step
            check_kv(plain, model, segments)
    launched = [kernel for kernel in shim.launched if kernel != "join_splits"]
    assert launched == ["write_rows", "attend_rows"] * plain.num_layers * len(STEPS)


def test_a_prompt_attends_by_segments(shim: Shim, monkeypatch: pytest.MonkeyPatch) -> None:
    _, model = models("llama", shim, monkeypatch)
    shim.launched.clear()
    with torch.inference_mode():
        run(model, segments_of({0: MOST_ROWS_OF_ONE + 1}, {}))
    assert not shim.launched


def test_who_leaves_between_two_layers_takes_its_rows_along(shim: Shim, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, model = models("qwen3", shim, monkeypatch)
    with torch.inference_mode():
        lengths = read_prompts(plain, model)
        segments, (reference, own) = drop_between_layers((plain, model), {0: 1, 1: 2, 2: 1}, lengths, [0, 2])
        assert own.single is not None
        assert own.single.table.numbers.tolist() == [
            [16, 2 * CONTEXT + 9],
            [16, 9],
            [0, 0],
            [0, 2],
            [0, 2 * CONTEXT // 64],
        ]
        assert difference(own.hidden, reference.hidden) < 1e-5
        check_kv(plain, model, [segments[0], segments[2]])


def test_what_is_left_when_a_prompt_leaves_attends_singly(shim: Shim, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, model = models("gemma3", shim, monkeypatch)
    with torch.inference_mode():
        segments = segments_of({0: 1, 1: MOST_ROWS_OF_ONE + 1}, read_prompts(plain, model))
        batches = [(plain, plain.begin(segments)), (model, model.begin(segments))]
        assert batches[1][1].single is None
        for one, batch in batches:
            one.run_layer(batch, 0)
            one.shrink(batch, [0])
            one.run_layer(batch, 1)
        (_, reference), (_, own) = batches
        assert own.single is not None
        assert difference(own.hidden, reference.hidden) < 1e-5


def test_tokens_are_those_of_attention_by_segments(shim: Shim, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn for several sequences, one of which verifies drafts, and one of which leaves amid a step."""
    told = []
    for model in models("gemma3", shim, monkeypatch):
        with torch.inference_mode():
            told.append(decoded(model, read_prompts(model, more=30)))
    plain, own = told
    assert own == plain
    assert len({tuple(tokens) for tokens in own}) > 4, "they repeat themselves"


def decoded(model: Transformer, lengths: dict[int, int]) -> list[list[int]]:
    """Return the tokens of each step; the second segment of the fourth leaves in the first layer."""
    params = SamplingParams(seed=0)
    last = dict.fromkeys(lengths, 7)
    steps = []
    for number in range(8):
        segments = []
        for slot, start in lengths.items():
            drafts = [DraftToken(3), DraftToken(5)] if slot == 2 else []
            given = [last[slot], *(draft.token_id for draft in drafts)]
            sample = SampleSpec(params, start + 1, number)
            segments.append(Segment(slot, start, given, sample=sample, drafts=drafts, pages=pages_of(slot, CONTEXT)))
        leaves = {1: [segments[1]]} if number == 3 else {}
        results = run_step(model, segments, leaves).segments
        assert [result.computed for result in results] == [not (number == 3 and slot == 1) for slot in lengths]
        for slot, result in zip(lengths, results, strict=True):
            lengths[slot] += len(result.tokens)
            if result.tokens:
                last[slot] = result.tokens[-1].token_id
        steps.append([token.token_id for result in results for token in result.tokens])
    return steps


def test_a_number_that_is_none_spoils_its_own_sequence_alone(shim: Shim, monkeypatch: pytest.MonkeyPatch) -> None:
    _, model = models("llama", shim, monkeypatch)
    with torch.inference_mode():
        lengths = read_prompts(model)
        model.kv.read(0, 1, 3, 4, pages_of(1, CONTEXT))[0].fill_(torch.nan)
        spoilt = run(model, segments_of({0: 2, 1: 1}, lengths)).hidden.isfinite().all(-1)
    assert spoilt.tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("counts", "staged"),
    [
        ([1] * MOST_ROWS, True),
        ([1] * (MOST_ROWS + 1), False),
        ([MOST_ROWS_OF_ONE, 1], True),
        ([MOST_ROWS_OF_ONE + 1, 1], False),
    ],
)
def test_only_few_rows_attend_singly(shim: Shim, counts: list[int], staged: bool) -> None:
    segments = [Segment(slot, 3, [1] * count, pages=pages_of(slot, 64)) for slot, count in enumerate(counts)]
    kernels, staging = MetalRows(shim, torch.float32, 32), StagingBuffer()
    given = stage_single_rows(kernels, segments, staging)
    assert (given is not None) == staged
    assert stage_single_rows(None, segments, staging) is None
    if given is not None:
        staging.send(CPU)
        table = given.sent().table
        assert (table.rows, table.longest) == (sum(counts), 3 + max(counts))
