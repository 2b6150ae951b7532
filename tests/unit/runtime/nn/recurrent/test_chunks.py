"""Rows in chunks, and what decays leave of them."""

from __future__ import annotations

import torch

from runtime.nn.recurrent.chunks import CHUNK, chunk_length, decay_before, decay_behind, decay_between, join, split
from tests.rows import every_row

DECAY = -torch.tensor([1.0, 500.0, 2.0, 0.0, 0.25])[:, None]


@every_row("rows, length", [(1, 1), (2, 2), (3, 4), (33, 64), (64, 64), (1000, CHUNK)])
def test_a_chunk_is_as_long_as_the_rows_or_the_longest(rows: int, length: int) -> None:
    assert chunk_length(rows) == length


@every_row("rows", [1, 4, 7])
def test_chunks_are_filled_up_and_what_fills_them_is_dropped(rows: int) -> None:
    x = torch.arange(rows * 6, dtype=torch.bfloat16).reshape(rows, 2, 3) + 1
    chunks = split(x, 4)
    assert (chunks.dtype, chunks.shape) == (torch.float32, (-(-rows // 4), 2, 4, 3))
    assert torch.equal(join(chunks, rows), x.float())
    assert chunks.sum() == x.float().sum()


def test_each_decay_is_the_product_over_its_own_rows() -> None:
    """A row of which nothing is left takes no precision from those behind it."""
    rows = DECAY.double()[:, 0]
    between = torch.tensor([[rows[j + 1 : i + 1].sum().exp() * (j <= i) for j in range(5)] for i in range(5)]).float()
    torch.testing.assert_close(decay_between(DECAY), between, rtol=1e-6, atol=0)
    torch.testing.assert_close(decay_behind(DECAY)[:, 0], between[-1], rtol=1e-6, atol=0)
    torch.testing.assert_close(decay_before(DECAY), rows.cumsum(0).exp().float()[:, None], rtol=1e-6, atol=0)
