"""The gated delta rule: Gated Delta Networks (arXiv 2412.06464) and Kimi Delta Attention (arXiv 2510.26692).

A head's state is a matrix S that maps keys to values.  At each row it decays, is asked what it holds for the row's key,
and is corrected by a part, beta, of what the row's value differs by:

    S = exp(decay) * S
    S = S + key^T (beta * (value - key S))
    out = query S / sqrt(k_dim)

What the rows of a chunk correct depends on what those before them did, a unit lower triangular system (Parallelizing
Linear Transformers with the Delta Rule, arXiv 2406.06484).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from runtime.nn.recurrent.chunks import chunk_length, decay_before, decay_behind, decay_between, join, split


def l2norm(x: Tensor, eps: float = 1e-6) -> Tensor:
    """Return `x / sqrt(sum(x^2) + eps)` over the last dimension, in float32: what queries and keys go through."""
    x = x.float()
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + eps)


def gated_delta_step(
    query: Tensor, key: Tensor, value: Tensor, decay: Tensor, beta: Tensor, states: Tensor
) -> tuple[Tensor, Tensor]:
    """Run one row of each sequence through the rule.

    Args:
        query: `[sequences, key_heads, k_dim]`.
        key: of that shape; each key head serves `heads / key_heads` heads, one behind the other.
        value: `[sequences, heads, v_dim]`.
        decay: logarithms, none above zero: `[sequences, heads]`, or of each channel of a key, `[..., heads, k_dim]`.
        beta: `[sequences, heads]`.
        states: before the rows, float32 `[sequences, heads, k_dim, v_dim]`.

    Returns:
        `[sequences, heads, v_dim]` in the dtype of the values, and the states behind the rows.
    """
    q, k = (x.float()[:, :, None, None] for x in (query, key))  # [sequences, key heads, 1, 1, k_dim]
    grouped = (len(key), key.shape[1], value.shape[1] // key.shape[1])
    v, g, b = (x.float().reshape(*grouped, 1, -1) for x in (value, decay, beta))
    state = states.reshape(*grouped, *states.shape[2:]) * g.exp().mT
    state.addcmul_(k.mT, b * (v - k @ state))
    out = q @ state / math.sqrt(key.shape[-1])
    return out.reshape(value.shape).to(value.dtype), state.reshape(states.shape)


def gated_delta_rule(
    query: Tensor, key: Tensor, value: Tensor, decay: Tensor, beta: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Run rows of one sequence through the rule, one after the other.

    Args:
        query: `[rows, key_heads, k_dim]`; this and all others as in `gated_delta_step`, rows in the place of sequences.
        key: `[rows, key_heads, k_dim]`.
        value: `[rows, heads, v_dim]`.
        decay: `[rows, heads]` or `[rows, heads, k_dim]`.
        beta: `[rows, heads]`.
        state: before the first row, float32 `[heads, k_dim, v_dim]`.

    Returns:
        `[rows, heads, v_dim]` in the dtype of the values, and the state behind the last row.
    """
    rows, heads = beta.shape
    if rows == 1:
        out, states = gated_delta_step(query, key, value, decay, beta, state[None])
        return out, states[0]
    grouped, length = (key.shape[1], heads // key.shape[1]), chunk_length(rows)
    # [chunks, key heads, heads of each, rows of a chunk, size]
    q, k = (split(x[:, :, None], length) for x in (query, key))
    v, g, b = (split(x.reshape(rows, *grouped, -1), length) for x in (value, decay, beta))
    q = q / math.sqrt(key.shape[-1])
    before, behind = decay_before(g), decay_behind(g)
    # What a row corrects is `missing - known @ state`, with the state before its chunk.
    solved = _unit_lower_inverse(b * _decayed_products(k, k, g))
    missing, known = solved @ (b * v), solved @ (b * k * before)
    seen = _decayed_products(q, k, g)
    asked, kept, added = q * before, before[..., -1:, :].mT, (k * behind).mT
    out, running = torch.empty_like(v), state.reshape(*grouped, *state.shape[1:])
    for i in range(len(v)):
        correction = missing[i] - known[i] @ running
        out[i] = asked[i] @ running + seen[i] @ correction
        running = kept[i] * running + added[i] @ correction
    return join(out, rows).flatten(1, 2).to(value.dtype), running.reshape(state.shape)


def _decayed_products(left: Tensor, right: Tensor, decay: Tensor) -> Tensor:
    """Return of rows i and j the product `left[i] right[j]`, row j decayed until row i, `[..., i, j]`; zero for j > i.

    If each channel decays by itself, it is done by halves, all of one size at once: rows of a first half decay until
    its last, and from there on until rows of the second.
    """
    if decay.shape[-1] == 1:
        return (left @ right.mT) * decay_between(decay)
    size = decay.shape[-2]
    if size == 1:
        return (left * right).sum(-1, keepdim=True).expand(*decay.shape[:-1], 1)
    left, right, decay = (x.reshape(*x.shape[:-2], 2, size // 2, x.shape[-1]) for x in (left, right, decay))
    corner = (left[..., 1, :, :] * decay_before(decay[..., 1, :, :])) @ (
        right[..., 0, :, :] * decay_behind(decay[..., 0, :, :])
    ).mT
    return _lower(_decayed_products(left, right, decay), corner)


def _unit_lower_inverse(matrix: Tensor) -> Tensor:
    """Return the inverse of `[..., size, size]`, with ones for its diagonal and zeros above.

    By halves, all of one size at once: that of `[[A, 0], [C, D]]` is `[[A', 0], [-D' C A', D']]`.
    """
    size = matrix.shape[-1]
    if size == 1:
        return torch.ones_like(matrix)
    half = size // 2
    halves = _unit_lower_inverse(torch.stack([matrix[..., :half, :half], matrix[..., half:, half:]], -3))
    return _lower(halves, -(halves[..., 1, :, :] @ matrix[..., half:, :half] @ halves[..., 0, :, :]))


def _lower(halves: Tensor, corner: Tensor) -> Tensor:
    """Return `[[A, 0], [C, D]]` of A and D, `[..., 2, half, half]`, and C, `[..., half, half]`."""
    first, second = halves.unbind(-3)
    return torch.cat([F.pad(first, (0, corner.shape[-1])), torch.cat([corner, second], -1)], -2)
