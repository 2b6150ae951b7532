"""Mamba 2's state-space model, against transformers' own, and however the rows are cut."""

from __future__ import annotations

import torch
from transformers.models.mamba2.modeling_mamba2 import mamba2_chunk_scan

from runtime.nn.recurrent.ssm import ssm_step
from tests.models.layers.recurrent import HEADS, PER_HEAD, assert_near, random_ssm, run_in_pieces, run_ssm
from tests.rows import every_row

A, D = PER_HEAD


@every_row("count", [1, 2, 63, 64, 65, 130])
def test_it_is_what_transformers_computes(count: int) -> None:
    """Which has chunks of another size."""
    rows, state = random_ssm(count)
    x, dt, b, c = (part[None] for part in rows)
    out, after = mamba2_chunk_scan(x, dt, A, b, c, 16, D=D, initial_states=state[None], return_final_states=True)
    ours = run_in_pieces(run_ssm, rows, state, [count])
    assert_near(ours, (out[0], after[0]))


@every_row("sizes", [[1] * 70, [64, 6], [1, 65, 4], [3, 1, 66], [37, 33]])
@every_row("strength", [1e-4, 1.0, 30.0])
def test_rows_may_be_cut_anywhere(sizes: list[int], strength: float) -> None:
    """In every third row no time passes, so what is small stands behind a long sum of decays."""
    rows, state = random_ssm(70, strength=strength)
    rows[1][::3] = 0
    assert_near(run_in_pieces(run_ssm, rows, state, sizes), run_ssm(rows, state))


def test_half_precision_rounds_only_what_comes_in_and_goes_out() -> None:
    rows, state = random_ssm(70)
    halves = [x.bfloat16() for x in rows]
    out, after = run_ssm(tuple(halves), state)
    exact, after_exact = run_ssm(tuple(x.float() for x in halves), state)
    assert torch.equal(out, exact.bfloat16())
    assert torch.equal(after, after_exact)


def test_a_row_of_each_sequence_is_as_alone() -> None:
    (x, dt, b, c), _ = random_ssm(3)
    states = torch.randn(3, HEADS, 6, 8, generator=torch.Generator().manual_seed(1))
    together = ssm_step(x, dt, A, b, c, D, states)
    for i in range(3):
        alone = run_ssm(tuple(part[i : i + 1] for part in (x, dt, b, c)), states[i])
        assert_near(alone, (together[0][i : i + 1], together[1][i]))
