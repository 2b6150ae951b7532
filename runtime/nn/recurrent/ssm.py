"""The state-space model of Mamba 2: Transformers are SSMs (arXiv 2405.21060).

A head's state is a matrix `[head_dim, state]`.  With `a = exp(dt * A)`, each row does

    S = a * S + (dt * x)^T B
    out = C S^T + D * x

In chunks (the paper's section 6) what the rows of a chunk see of each other is a masked product of `C` and `B`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from runtime.nn.recurrent.chunks import chunk_length, join, pair_decays, split


def ssm_scan(x: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor, d: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Run rows through the model.

    Args:
        x: `[rows, heads, head_dim]`.
        dt: steps of time, none below zero (behind the softplus): `[rows, heads]`.
        a: `A` of the paper, below zero: `[heads]`.
        b: `B`, `[rows, groups, state]`; each group serves `heads / groups` heads, one after the other.
        c: `C`, the same shape.
        d: `D`, `[heads]`.
        state: before the first row, float32 `[heads, head_dim, state]`.

    Returns:
        `[rows, heads, head_dim]` in the dtype of `x`, and the state behind the last row.
    """
    rows, groups = b.shape[:2]
    length = chunk_length(rows)
    # [chunks, groups, heads of a group, length, size]: each head's rows of a chunk are a matrix.
    b, c = split(b, length), split(c, length)
    step = split(dt.reshape(rows, groups, -1, 1), length)
    drive = step * split(x.unflatten(1, (groups, -1)), length)
    total = (step * a.float().view(groups, -1, 1, 1)).cumsum(-2)
    last = total[..., -1:, :]
    seen = (c @ b.mT).unsqueeze(2) * pair_decays(total)
    added = torch.einsum("ngtlp,ngls->ngtps", drive * (last - total).exp(), b)
    kept = last.exp()
    states = [state.unflatten(0, (groups, -1))]
    for i in range(len(added)):
        states.append(states[-1] * kept[i] + added[i])
    out = seen @ drive + torch.einsum("ngls,ngtps->ngtlp", c, torch.stack(states[:-1])) * total.exp()
    y = join(out, rows).flatten(1, 2) + d.float()[:, None] * x.float()
    return y.to(x.dtype), states[-1].flatten(0, 1)
