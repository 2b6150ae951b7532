"""The state-space model of Mamba 2 (Transformers are SSMs, arXiv 2405.21060).

A head's state is a matrix S, `[head_dim, state]`.  At each row it decays, takes the row up in the direction of B, and
is read in that of C:

    S = exp(dt * A) * S + (dt * x)^T B
    out = C S^T + D * x

In a chunk, rows see each other as in attention without softmax, C being the queries and B the keys (its section 6).
"""

from __future__ import annotations

import torch
from torch import Tensor

from runtime.nn.recurrent.chunks import chunk_length, decay_before, decay_behind, decay_between, join, split


def ssm_step(
    x: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor, d: Tensor, states: Tensor
) -> tuple[Tensor, Tensor]:
    """Run one row of each sequence through the model.

    Args:
        x: `[sequences, heads, head_dim]`.
        dt: time that passes, none below zero: `[sequences, heads]`.
        a: A, below zero, `[heads]`.
        b: B, `[sequences, groups, state]`; each group serves `heads / groups` heads, one behind the other.
        c: C, of the shape of B.
        d: D, `[heads]`.
        states: before the rows, float32 `[sequences, heads, head_dim, state]`.

    Returns:
        `[sequences, heads, head_dim]` in the dtype of `x`, and the states behind the rows.
    """
    inputs, time = x.float(), dt.float()[..., None]
    grouped = (*b.shape[:2], x.shape[1] // b.shape[1])
    drive = (time * inputs).reshape(*grouped, -1, 1)
    decay = (time * a.float()[:, None]).exp().reshape(*grouped, 1, 1)
    state = (decay * states.reshape(*grouped, *states.shape[2:])).addcmul_(drive, b.float()[:, :, None, None])
    out = state @ c.float()[:, :, None, :, None]
    return (out.reshape(x.shape) + d.float()[:, None] * inputs).to(x.dtype), state.reshape(states.shape)


def ssm_scan(x: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor, d: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Run rows of one sequence through the model, one after the other.

    Args:
        x: `[rows, heads, head_dim]`; this and all others as in `ssm_step`, rows in the place of sequences.
        dt: `[rows, heads]`.
        a: `[heads]`.
        b: `[rows, groups, state]`.
        c: `[rows, groups, state]`.
        d: `[heads]`.
        state: before the first row, float32 `[heads, head_dim, state]`.

    Returns:
        `[rows, heads, head_dim]` in the dtype of `x`, and the state behind the last row.
    """
    rows, heads = dt.shape
    if rows == 1:
        out, states = ssm_step(x, dt, a, b, c, d, state[None])
        return out, states[0]
    grouped, length = (b.shape[1], heads // b.shape[1]), chunk_length(rows)
    inputs, time = x.float(), dt.float()[..., None]
    # [chunks, groups, heads of each, rows of a chunk, size]; B and C are the same for all heads of a group
    drive, decay = (split(y.reshape(rows, *grouped, -1), length) for y in (time * inputs, time * a.float()[:, None]))
    keys, queries = split(b, length), split(c, length)
    before = decay_before(decay)
    added = torch.einsum("cghlp,cgls->cghps", drive * decay_behind(decay), keys)
    passed = [state.reshape(*grouped, *state.shape[1:])]
    for i in range(len(added)):
        passed.append(before[i, ..., -1:, :] * passed[-1] + added[i])
    seen = (queries @ keys.mT)[:, :, None] * decay_between(decay)
    out = seen @ drive + before * torch.einsum("cgls,cghps->cghlp", queries, torch.stack(passed[:-1]))
    y = join(out, rows).reshape(x.shape) + d.float()[:, None] * inputs
    return y.to(x.dtype), passed[-1].reshape(state.shape)
