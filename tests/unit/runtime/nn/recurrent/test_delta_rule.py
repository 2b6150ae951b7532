"""The gated delta rule, against transformers' own, and however the rows are cut."""

from __future__ import annotations

import torch
from transformers.models.kimi_linear.modeling_kimi_linear import recurrent_kimi_delta_attention
from transformers.models.qwen3_next import modeling_qwen3_next as qwen3_next

from runtime.nn.recurrent.delta_rule import gated_delta_step, l2norm
from tests.models.layers.recurrent import GROUPS, HEADS, assert_near, random_delta, run_delta, run_in_pieces
from tests.rows import every_row


def theirs(rows: tuple[torch.Tensor, ...], state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What transformers computes, row by row."""
    query, key, *others = rows
    repeated = [x.repeat_interleave(HEADS // GROUPS, 1) for x in (query, key)]
    channels = rows[3].dim() == 3
    run = recurrent_kimi_delta_attention if channels else qwen3_next.torch_recurrent_gated_delta_rule
    batch = [x[None] for x in (*repeated, *others)]
    out, after = run(*batch, initial_state=state[None], output_final_state=True)
    return out[0], after[0]


@every_row("count, channels", [(count, channels) for count in (1, 2, 63, 64, 65, 130) for channels in (False, True)])
def test_it_is_what_transformers_computes(count: int, channels: bool) -> None:
    rows, state = random_delta(count, channels=channels)
    assert_near(run_in_pieces(run_delta, rows, state, [count]), theirs(rows, state))


@every_row("sizes", [[1] * 70, [64, 6], [1, 65, 4], [3, 1, 66], [37, 33]])
@every_row("channels", [False, True])
def test_rows_may_be_cut_anywhere(sizes: list[int], channels: bool) -> None:
    rows, state = random_delta(70, channels=channels)
    assert_near(run_in_pieces(run_delta, rows, state, sizes), run_delta(rows, state))


@every_row("strength, channels", [(strength, channels) for strength in (1e-4, 30.0) for channels in (False, True)])
def test_decays_that_are_weak_or_leave_nothing_lose_no_precision(strength: float, channels: bool) -> None:
    """With the strong ones, every third row has none, so what is small stands behind a long sum."""
    rows, state = random_delta(70, channels=channels, strength=strength)
    rows[3][::3] = 0
    assert_near(run_delta(rows, state), theirs(rows, state))


def test_one_key_that_is_written_over_at_each_row_remembers_the_last_value() -> None:
    """All rows of the chunk depend on all before them, and nothing is decayed."""
    rows, state = random_delta(64)
    query, key, value, decay, beta = rows
    query, key = (x[:1].expand_as(x) for x in (key, key))
    out, _ = run_delta((query * 8**0.5, key, value, torch.zeros_like(decay), torch.ones_like(beta)), state)
    torch.testing.assert_close(out, value, atol=1e-5, rtol=1e-5)


def test_half_precision_rounds_only_what_comes_in_and_goes_out() -> None:
    rows, state = random_delta(70)
    halves = [x.bfloat16() for x in rows]
    out, after = run_delta(tuple(halves), state)
    exact, after_exact = run_delta(tuple(x.float() for x in halves), state)
    assert torch.equal(out, exact.bfloat16())
    assert torch.equal(after, after_exact)


@every_row("channels", [False, True])
def test_a_row_of_each_sequence_is_as_alone(channels: bool) -> None:
    (query, key, value, decay, beta), _ = random_delta(3, channels=channels)
    states = torch.randn(3, HEADS, 8, 6, generator=torch.Generator().manual_seed(1))
    together = gated_delta_step(query, key, value, decay, beta, states)
    for i in range(3):
        alone = run_delta(tuple(x[i : i + 1] for x in (query, key, value, decay, beta)), states[i])
        assert_near(alone, (together[0][i : i + 1], together[1][i]))


def test_norms_are_those_of_transformers() -> None:
    x = torch.randn(5, 8, generator=torch.Generator().manual_seed(1))
    x[0] = 0
    torch.testing.assert_close(l2norm(x), qwen3_next.l2norm(x))
    assert l2norm(x.bfloat16()).dtype == torch.float32
