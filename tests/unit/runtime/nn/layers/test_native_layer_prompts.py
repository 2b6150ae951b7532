"""Many rows of one sequence: which of them the kernels compute, and that nothing tells who did."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
import torch

from runtime.nn.layers import native_layer
from runtime.nn.layers.decoder_layer import DecoderLayer
from runtime.nn.layers.recurrent import StateRows
from runtime.nn.matrices.byte_products import ByteInt8
from runtime.nn.matrices.linear import PlainMatrix, WeightFormats
from runtime.step.step import Segment
from tests.models.layers import native_models
from tests.models.layers.native_models import (
    CONTEXT,
    GEMMA3,
    GRANITE_HYBRID,
    LFM2,
    LLAMA,
    QWEN3,
    QWEN3_5,
    both,
    difference,
    run,
    states_left,
)
from tests.models.step_driver import pages_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.devices.native.kernels import Kernels
    from runtime.kv.cache import KVCache
    from runtime.nn.layers.batch import LayerRows
    from runtime.nn.layers.decoder_layer import Mix
    from runtime.nn.model import Transformer

MOST_KEYS = 60  # here


def rows_of_pytorch(monkeypatch: pytest.MonkeyPatch, model: Transformer, steps: Sequence[list[Segment]]) -> list[int]:
    """Run steps, and return how many rows PyTorch's layers were given each time."""
    rows: list[int] = []
    own = DecoderLayer.__call__

    def note(self: DecoderLayer, batch: LayerRows, kv: KVCache, mix: Mix | None = None) -> None:
        rows.append(batch.hidden.shape[0])
        own(self, batch, kv, mix)

    with monkeypatch.context() as patched, torch.inference_mode():
        patched.setattr(DecoderLayer, "__call__", note)
        for step in steps:
            run(model, step)
    return rows


def models(
    kernels: Kernels, settings: dict[str, object], dtype: torch.dtype, *, of_bytes: bool = True
) -> tuple[Transformer, Transformer]:
    form = partial(ByteInt8, kernels=kernels) if of_bytes else PlainMatrix
    plain, native = both(settings, dtype, kernels, WeightFormats(form, form))
    assert native.native_layers == native.num_layers == 2
    return plain, native


def segments(*rows: tuple[int, int]) -> list[Segment]:
    """Of each slot: from where on, and how many rows."""
    return [
        Segment(slot, start, [1 + (start + i) % 300 for i in range(count)], pages=pages_of(slot, CONTEXT))
        for slot, (start, count) in enumerate(rows)
    ]


@pytest.fixture(autouse=True)
def _few_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_layer, "MOST_KEYS", MOST_KEYS)


@pytest.mark.parametrize(
    ("dtype", "of_bytes", "by_pytorch"),
    [
        (torch.float32, True, []),
        (torch.bfloat16, True, [40, 40]),  # in both layers those that attend to 80
        (torch.float32, False, [40, 40, 40, 40]),
    ],
    ids=["float32", "bfloat16", "not of bytes"],
)
def test_who_computes_a_prompt(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, *, of_bytes: bool, by_pytorch: list[int]
) -> None:
    _, native = models(kernels, LLAMA, dtype, of_bytes=of_bytes)
    chunks = [segments((start, rows)) for start, rows in ((0, 40), (40, 40), (80, 3))]
    assert rows_of_pytorch(monkeypatch, native, chunks) == by_pytorch


def test_a_layer_with_a_window_attends_to_no_more_than_that(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    """So its rows are the kernels', however deep they are; those of the other layer are not."""
    monkeypatch.setattr(native_models, "SLACK", 40)
    _, native = models(kernels, GEMMA3, torch.bfloat16)
    assert rows_of_pytorch(monkeypatch, native, [segments((start, 40)) for start in (0, 40, 80)]) == [40, 40]


@pytest.mark.parametrize("settings", [LFM2, QWEN3_5, GRANITE_HYBRID], ids=["lfm2", "qwen3.5", "granite"])
def test_what_recurs_attends_to_nothing(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch, settings: dict[str, object]
) -> None:
    """So its rows are the kernels', likewise."""
    _, native = models(kernels, settings, torch.bfloat16)
    assert rows_of_pytorch(monkeypatch, native, [segments((start, 40)) for start in (0, 40, 80)]) == [40, 40]


@pytest.mark.parametrize("settings", [LLAMA, QWEN3, LFM2, QWEN3_5], ids=["llama", "qwen3", "lfm2", "qwen3.5"])
def test_in_float32_a_row_does_not_depend_on_its_neighbours(kernels: Kernels, settings: dict[str, object]) -> None:
    """Not by a bit, in whatever steps it is computed: also where that was not asked for."""
    _, native = models(kernels, settings, torch.float32)
    with torch.inference_mode():
        together = run(native, segments((0, 90), (0, 70))).hidden
        alone = torch.cat([run(native, segments((start, 30))).hidden for start in (0, 30, 60)])
    assert torch.equal(together[:90], alone)


@pytest.mark.parametrize(
    ("settings", "of_bytes", "by_pytorch", "tolerance"),
    # A convolution multiplies three products, each rounded to bfloat16.
    [
        (QWEN3, True, [40, 40, 100, 100], 0.03),
        (LFM2, True, [40, 100], 0.05),
        (LFM2, False, [100, 100, 40, 45, 40, 45, 100, 100], 0.05),
    ],
    ids=["qwen3", "lfm2", "lfm2, not of bytes"],
)
def test_a_step_of_both_kinds_of_rows(
    kernels: Kernels,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, object],
    *,
    of_bytes: bool,
    by_pytorch: list[int],
    tolerance: float,
) -> None:
    """The states are PyTorch's, whoever computes which of them."""
    steps = [
        segments((0, 50), (0, 50), (0, 9)),
        segments((50, 40), (50, 1), (9, 45)),
        segments((90, 1), (51, 60), (54, 40)),
    ]
    _, native = models(kernels, settings, torch.bfloat16, of_bytes=of_bytes)
    assert rows_of_pytorch(monkeypatch, native, steps) == by_pytorch
    plain, native = models(kernels, settings, torch.bfloat16, of_bytes=of_bytes)
    with torch.inference_mode():
        for step in steps:
            assert difference(run(native, step).hidden, run(plain, step).hidden) < tolerance


@pytest.mark.parametrize("settings", [LFM2, QWEN3_5, GRANITE_HYBRID], ids=["lfm2", "qwen3.5", "granite"])
def test_between_pytorch_s_products_are_the_kernels(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch, settings: dict[str, object]
) -> None:
    """The rows and the states of prompts, in chunks of odd sizes, beside others; no rule is PyTorch's."""
    plain, native = models(kernels, settings, torch.float32, of_bytes=False)
    steps = [
        segments((0, 47), (0, 33), (0, 5)),
        segments((47, 101), (33, 1), (5, 34)),
        segments((148, 1), (34, 2), (39, 65)),
    ]
    with torch.inference_mode():
        expected = [run(plain, step).hidden for step in steps]
        monkeypatch.setattr(StateRows, "convolve", lambda *given: pytest.fail("PyTorch's"))
        for step, reference in zip(steps, expected, strict=True):
            assert difference(run(native, step).hidden, reference) < 1e-5
            for own, left in zip(states_left(native, step), states_left(plain, step), strict=True):
                assert difference(own, left) < 1e-5
