"""The gated delta rule: Gated Delta Networks (arXiv 2412.06464), and Kimi Delta Attention (arXiv 2510.26692).

A head's state is a matrix `S` that maps keys to values.  Each row lets it decay, looks up what it holds for the row's
key, and corrects this by `beta` of what is missing to the row's value:

    S = exp(decay) * S
    S = S + key^T (beta * (value - key S))
    out = query S

In chunks (the WY form; Yang et al., arXiv 2406.06484) the corrections of all rows of a chunk are the solution of one
unit lower triangular system.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from runtime.nn.recurrent.chunks import chunk_length, join, pair_decays, split


def l2norm(x: Tensor, eps: float = 1e-6) -> Tensor:
    """Return `x / sqrt(sum(x^2) + eps)` over the last dimension, in float32."""
    x = x.float()
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + eps)


def gated_delta_rule(
    query: Tensor, key: Tensor, value: Tensor, decay: Tensor, beta: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Run rows through the rule; queries are divided by the square root of their size.

    Args:
        query: `[rows, key_heads, k_dim]`.
        key: the same shape; each of its heads serves `heads / key_heads` heads, one after the other.
        value: `[rows, heads, v_dim]`.
        decay: logarithms, none above zero: `[rows, heads]`, or of each channel of the keys `[rows, heads, k_dim]`.
        beta: `[rows, heads]`, from 0 to 1.
        state: before the first row, float32 `[heads, k_dim, v_dim]`.

    Returns:
        `[rows, heads, v_dim]` in the dtype of the values, and the state behind the last row.
    """
    rows, heads = value.shape[:2]
    groups, length = key.shape[1], chunk_length(rows)
    # [chunks, groups, heads of a group, length, size]: each head's rows of a chunk are a matrix.
    q, k = (split(x[:, :, None], length) for x in (query, key))
    v, g, b = (split(x.reshape(rows, groups, heads // groups, -1), length) for x in (value, decay, beta))
    q = q * q.shape[-1] ** -0.5
    state = state.unflatten(0, (groups, -1))
    if rows == 1:
        out, state = _one_row(q, k, v, g, b, state)
    else:
        out, state = _chunks(q, k, v, g, b, state)
    return join(out, rows).flatten(1, 2).to(value.dtype), state.flatten(0, 1)


def _one_row(q: Tensor, k: Tensor, v: Tensor, g: Tensor, b: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """The rule as it is written above."""
    state = state * g[0].exp().mT
    correction = b[0] * (v[0] - k[0] @ state)
    state = state + k[0].mT * correction
    return (q[0] @ state)[None], state


def _chunks(q: Tensor, k: Tensor, v: Tensor, g: Tensor, b: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """The rule for whole chunks: a row's correction lacks what the earlier ones of its chunk have corrected."""
    total = g.cumsum(-2)  # decay since the chunk's start
    last = total[..., -1:, :]
    solved = _unit_lower_inverse(b * _decayed_products(k, k, total))
    missing, known = solved @ (b * v), solved @ (b * k * total.exp())
    seen = _decayed_products(q, k, total)
    q, k = q * total.exp(), k * (last - total).exp()
    kept = last.exp().mT
    out = torch.empty_like(v)
    for i in range(len(v)):
        correction = missing[i] - known[i] @ state
        out[i] = q[i] @ state + seen[i] @ correction
        state = state * kept[i] + k[i].mT @ correction
    return out, state


def _decayed_products(left: Tensor, right: Tensor, total: Tensor) -> Tensor:
    """Return of rows `i` and `j <= i` the sum of `left[i] * right[j] * exp(total[i] - total[j])`, else 0.

    Where each channel has a decay of its own, a pair of rows is met on the way: at the last row of the first half.
    So no exponent is above zero, and no more than a half's rows are decayed at once.
    """
    if total.shape[-1] == 1:
        return (left @ right.mT) * pair_decays(total)
    rows = left.shape[-2]
    if rows == 1:
        return (left * right).sum(-1, keepdim=True).expand(*total.shape[:-1], 1)
    (_, left_1), (right_0, _), (total_0, total_1) = (x.unflatten(-2, (2, -1)).unbind(-3) for x in (left, right, total))
    middle = total_0[..., -1:, :]
    corner = (left_1 * (total_1 - middle).exp()) @ (right_0 * (middle - total_0).exp()).mT
    return _lower(_decayed_products(*(x.unflatten(-2, (2, -1)) for x in (left, right, total))), corner)


def _unit_lower_inverse(matrix: Tensor) -> Tensor:
    """Return the inverse of `[..., size, size]`, of which what is below the diagonal is read; on the diagonal are ones.

    By halves, all of one size at once: that of `[[A, 0], [C, D]]` is `[[A', 0], [-D' C A', D']]`.
    """
    size = matrix.shape[-1]
    if size == 1:
        return torch.ones_like(matrix)
    half = size // 2
    halves = _unit_lower_inverse(torch.stack([matrix[..., :half, :half], matrix[..., half:, half:]], -3))
    return _lower(halves, -(halves[..., 1, :, :] @ matrix[..., half:, :half] @ halves[..., 0, :, :]))


def _lower(halves: Tensor, corner: Tensor) -> Tensor:
    """Return `[[A, 0], [C, D]]` of `A` and `D`, `[..., 2, half, half]`, and `C`, `[..., half, half]`."""
    first, second = halves.unbind(-3)
    return torch.cat([F.pad(first, (0, corner.shape[-1])), torch.cat([corner, second], -1)], -2)
