"""Root mean square normalisation (arXiv 1910.07467)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor


class RMSNorm:
    """`x / sqrt(mean(x^2) + eps) * weight` over the last dimension, computed in float32.

    On the CPU PyTorch takes it apart into ten operations; here they are six, on less memory (bench/LOG.md).

    Args:
        weight: `[size]`, or `[heads, size]` for a weight of its own for each head.
        eps: is added to the mean square.
    """

    def __init__(self, weight: Tensor, eps: float) -> None:
        self._weight = weight
        self._eps = eps
        size = weight.shape[-1]
        # sqrt(mean + eps) is hypot(norm, sqrt(size * eps)) / sqrt(size).
        self._min_norm = torch.full((1,), math.sqrt(size * eps), device=weight.device)
        self._scaled = weight.float() * math.sqrt(size)

    @property
    def weight(self) -> Tensor:
        """The weight as it was given."""
        return self._weight

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self._weight.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise `[..., size]`, or `[..., heads, size]`, to the same shape and dtype."""
        if x.device.type != "cpu":
            return self._fused(x)
        y = x.float()
        norm = torch.linalg.vector_norm(y, dim=-1, keepdim=True)
        return (y / torch.hypot(norm, self._min_norm)).mul_(self._scaled).to(x.dtype)

    def _fused(self, x: Tensor) -> Tensor:
        """Normalise in the one kernel that MPS and CUDA have."""
        if self._weight.dim() == 1:
            return F.rms_norm(x, self._weight.shape, self._weight, self._eps)
        return F.rms_norm(x, self._weight.shape[-1:], eps=self._eps) * self._weight
