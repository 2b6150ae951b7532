"""Causal convolution, against transformers' own, and however the rows are cut."""

from __future__ import annotations

import torch
from transformers.models.qwen3_next.modeling_qwen3_next import causal_conv1d_fn

from runtime.nn.recurrent.convolution import causal_conv
from tests.rows import every_row

CHANNELS, WIDTH = 5, 4


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


WEIGHT, ROWS = _random(CHANNELS, WIDTH), _random(11, CHANNELS)


@every_row("count", [1, 2, 3, 11])
@every_row("bias", [None, torch.arange(5.0)])
def test_it_is_what_transformers_computes(count: int, bias: torch.Tensor | None) -> None:
    out, _ = causal_conv(ROWS[:count], WEIGHT, bias, None)
    torch.testing.assert_close(out, causal_conv1d_fn(ROWS[:count].T[None], WEIGHT, bias)[0].T)


@every_row("sizes", [[1] * 11, [3, 8], [1, 2, 5, 3], [9, 2]])
@every_row("dtype", [torch.float32, torch.bfloat16])
def test_rows_may_be_cut_anywhere_bit_for_bit(sizes: list[int], dtype: torch.dtype) -> None:
    rows, before, outs = ROWS.to(dtype), None, []
    for piece in torch.split(rows, sizes):
        out, history = causal_conv(piece, WEIGHT.to(dtype), None, before)
        outs.append(out)
        before = history[len(piece) :]
        assert before.shape == (WIDTH - 1, CHANNELS)
    whole, history = causal_conv(rows, WEIGHT.to(dtype), None, None)
    assert torch.equal(torch.cat(outs), whole)
    assert torch.equal(before, rows[-WIDTH + 1 :])  # type: ignore[arg-type]


def test_sequences_of_as_many_rows_are_each_as_alone() -> None:
    rows, before = _random(3, 2, CHANNELS), _random(3, WIDTH - 1, CHANNELS)
    out, history = causal_conv(rows, WEIGHT, None, before)
    for i in range(3):
        alone = causal_conv(rows[i], WEIGHT, None, before[i])
        assert torch.equal(alone[0], out[i])
        assert torch.equal(alone[1], history[i])
