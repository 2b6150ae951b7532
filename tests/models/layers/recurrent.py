"""Rows and states for recurrent layers, at random, and their functions run over them in pieces."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from runtime.nn.recurrent.convolution import causal_conv
from runtime.nn.recurrent.delta_rule import gated_delta_rule, l2norm
from runtime.nn.recurrent.ssm import ssm_scan

if TYPE_CHECKING:
    from collections.abc import Sequence

    Rows = tuple[Tensor, ...]
    Recurrence = Callable[[Rows, Tensor], tuple[Tensor, Tensor]]

HEADS, GROUPS = 4, 2


def random_delta(rows: int, *, channels: bool = False, strength: float = 1.0) -> tuple[Rows, Tensor]:
    """Return what the gated delta rule is given, and its state; decays' logarithms are `-strength` in the mean."""
    random = torch.Generator().manual_seed(rows)
    query, key = l2norm(torch.randn(2, rows, GROUPS, 8, generator=random))
    value = torch.randn(rows, HEADS, 6, generator=random)
    beta = torch.rand(rows, HEADS, generator=random)
    decay = strength * (1 - torch.rand(rows, HEADS, 8 if channels else 1, generator=random)).log()
    state = torch.randn(HEADS, 8, 6, generator=random)
    return (query, key, value, decay if channels else decay[..., 0], beta), state


def random_ssm(rows: int, *, strength: float = 1.0) -> tuple[Rows, Tensor]:
    """Return what Mamba 2's model is given, x, dt, B and C, and its state; `strength` is the mean of dt."""
    random = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, HEADS, 6, generator=random)
    dt = -strength * (1 - torch.rand(rows, HEADS, generator=random)).log()
    b, c = torch.randn(2, rows, GROUPS, 8, generator=random)
    return (x, dt, b, c), torch.randn(HEADS, 6, 8, generator=random)


PER_HEAD = torch.tensor([[-0.5, -1.0, -2.0, -4.0], [1.0, -1.0, 0.5, 0.0]])
"""A and D of Mamba 2's model."""


def run_delta(rows: Rows, state: Tensor) -> tuple[Tensor, Tensor]:
    """Run the gated delta rule."""
    query, key, value, decay, beta = rows
    return gated_delta_rule(query, key, value, decay, beta, state)


def run_ssm(rows: Rows, state: Tensor, per_head: Tensor = PER_HEAD) -> tuple[Tensor, Tensor]:
    """Run Mamba 2's model."""
    (x, dt, b, c), (a, d) = rows, per_head
    return ssm_scan(x, dt, a, b, c, d, state)


def run_in_pieces(run: Recurrence, rows: Rows, state: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Run pieces of so many rows one after the other, and check that no state is written."""
    outs = []
    for piece in zip(*(torch.split(part, list(sizes)) for part in rows), strict=True):
        given = state.clone()
        out, after = run(piece, state)
        assert torch.equal(state, given)
        assert (after.shape, after.dtype) == (given.shape, torch.float32)
        outs.append(out)
        state = after
    return torch.cat(outs), state


def assert_near(ours: tuple[Tensor, Tensor], theirs: tuple[Tensor, Tensor]) -> None:
    """Assert that rows, and states, differ by no more than sums in float32 do in another order."""
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our, their, atol=2e-6 * their.abs().max().item(), rtol=1e-5)


def prepare_all(device: torch.device, dtype: torch.dtype) -> list[Callable[[], object]]:
    """Return calls of everything, with zeros of a dtype on a device: with one row, few, and several chunks."""
    calls = list[Callable[[], object]]()
    weight = torch.zeros(5, 4, device=device, dtype=dtype)
    for count in (1, 3, 70):
        for run, (rows, state) in (
            (run_delta, random_delta(count)),
            (run_delta, random_delta(count, channels=True)),
            (partial(run_ssm, per_head=torch.zeros(2, HEADS, device=device)), random_ssm(count)),
        ):
            on_device = tuple(torch.zeros_like(part, device=device, dtype=dtype) for part in rows)
            calls.append(partial(run, on_device, torch.zeros_like(state, device=device)))
        inputs = torch.zeros(count, 5, device=device, dtype=dtype)
        calls.append(partial(causal_conv, inputs, weight, weight[:, 0], None))
        calls.append(partial(causal_conv, inputs, weight, None, inputs[:1].expand(3, 5)))
    return calls
