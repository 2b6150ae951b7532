"""Normalisation: by the root mean square (arXiv 1910.07467), and by mean and variance (arXiv 1607.06450)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from runtime.checkpoint.config import ModelConfig
    from runtime.nn.source import WeightSource


class Norm(Protocol):
    """Normalises rows; without a weight, it leaves them as they are."""

    @property
    def weight(self) -> Tensor | None:
        """The weight as it is in the file."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise `[..., size]`, or `[..., heads, size]`, to the same shape and dtype."""


class RMSNorm:
    """`x / sqrt(mean(x^2) + eps) * (weight + offset)` over the last dimension, computed in float32.

    On the CPU PyTorch takes it apart into ten operations; here they are six, on less memory (bench/LOG.md).

    Args:
        weight: `[size]`, or `[heads, size]` for a weight of its own for each head.
        eps: is added to the mean square.
        offset: is added to the weight.
    """

    def __init__(self, weight: Tensor, eps: float, offset: float = 0.0) -> None:
        self._weight = weight
        self._eps = eps
        size = weight.shape[-1]
        # sqrt(mean + eps) is hypot(norm, sqrt(size * eps)) / sqrt(size).
        self._min_norm = torch.full((1,), math.sqrt(size * eps), device=weight.device)
        self._factor = self._scaled = weight
        if not weight.is_meta:  # only planned: PyTorch would import its compiler for arithmetic on it, in seconds
            self._factor = weight + offset if offset else weight
            self._scaled = self._factor.float() * math.sqrt(size)

    @property
    def weight(self) -> Tensor:
        """The weight as it was given."""
        return self._weight

    @property
    def scaled(self) -> Tensor:
        """The weight with its offset, times the square root of the size, float32."""
        return self._scaled

    @property
    def least(self) -> float:
        """Length that a row's is put together with, as the other side of a right angle: `sqrt(size * eps)`."""
        return self._min_norm.item()

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
        """Normalise in the one kernel that MPS and CUDA have, in the dtype of the weight."""
        y = x.to(self._factor.dtype)
        if self._weight.dim() == 1:
            return F.rms_norm(y, self._factor.shape, self._factor, self._eps).to(x.dtype)
        return (F.rms_norm(y, self._factor.shape[-1:], eps=self._eps) * self._factor).to(x.dtype)


class LayerNorm:
    """`(x - mean) / sqrt(variance + eps) * weight` over the last dimension, computed in float32.

    Args:
        weight: `[size]`, or `[heads, size]` for a weight of its own for each head.
        eps: is added to the variance.
    """

    def __init__(self, weight: Tensor, eps: float) -> None:
        self._weight = weight
        self._eps = eps
        self._factor = weight.float()

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
        return F.layer_norm(x.float(), self._weight.shape[-1:], eps=self._eps).mul_(self._factor).to(x.dtype)


class NoNorm:
    """Stands where a family has no norm."""

    weight = None
    nbytes = 0

    def __call__(self, x: Tensor) -> Tensor:
        """Return `x` itself."""
        return x


def read_norm(source: WeightSource, name: str | None, config: ModelConfig) -> Norm:
    """Return the norm of hidden states that has this name; None makes one that changes nothing."""
    return NoNorm() if name is None else make_norm(read_weight(source, name, config, config.hidden_size), config)


def read_weight(source: WeightSource, name: str, config: ModelConfig, *shape: int) -> Tensor:
    """Return the weight of a norm, in the dtype that the family keeps it in."""
    return source.tensor(f"{name}.weight", *shape, dtype=torch.float32 if config.norms.float32 else None)


def make_norm(weight: Tensor, config: ModelConfig) -> Norm:
    """Return a norm of the family's kind with this weight."""
    if config.norms.kind == "layer":
        return LayerNorm(weight, config.norm_eps)
    return RMSNorm(weight, config.norm_eps, config.norms.offset)
