"""The MLP of a decoder layer: gated (arXiv 2002.05202), or of squared ReLU without a gate (arXiv 2109.08668)."""

from __future__ import annotations

from functools import partial
from statistics import NormalDist
from typing import TYPE_CHECKING, TypeAlias

import torch.nn.functional as F

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from runtime.checkpoint.families.activations import Activation
    from runtime.nn.source import WeightSource


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """Return `silu(gate) * up`; `[rows, inner]` all."""
    return F.silu(gate).mul_(up)


def geglu(gate: Tensor, up: Tensor) -> Tensor:
    """Return `gelu(gate) * up` with the approximation of GELU that uses tanh; `[rows, inner]` all."""
    return F.gelu(gate, approximate="tanh").mul_(up)


def sparse(gate: Tensor, up: Tensor, joined: Callable[[Tensor, Tensor], Tensor], deviations: float) -> Tensor:
    """Join gate and up, `[rows, inner]`, of what a gate has above its row's mean and so many standard deviations.

    So of gates that are distributed normally a share is left (Gemma 3n).
    """
    apart = gate.float()
    apart = apart - apart.mean(-1, keepdim=True)
    cut = apart.square().mean(-1, keepdim=True).sqrt_().mul_(deviations)
    return joined(apart.sub_(cut).relu_().to(gate.dtype), up)


ACTIVATIONS: dict[Activation, Callable[[Tensor, Tensor], Tensor]] = {"silu": swiglu, "gelu_tanh": geglu}


class GatedMlp:
    """`down(activation(gate(x), up(x)))`; gate and up are rows of one matrix, so they are one product.

    Args:
        source: of the weights, under the module's name.
        hidden: size of a row.
        inner: size of a row of gate and of up.
        bias: whether the projections have one.
        activation: joins gate and up.
        gate_factor: of the gate, before its activation.
    """

    def __init__(
        self,
        source: WeightSource,
        hidden: int,
        inner: int,
        *,
        bias: bool = False,
        activation: Callable[[Tensor, Tensor], Tensor] = swiglu,
        gate_factor: float = 1.0,
    ) -> None:
        self.gate_up = source.linear({"gate_proj": inner, "up_proj": inner}, hidden, bias=bias)
        self.down = source.linear({"down_proj": hidden}, inner, bias=bias)
        self._inner = inner
        self._activation = activation
        self._gate_factor = gate_factor

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.gate_up.nbytes + self.down.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        """Transform rows, `[rows, hidden]` to the same."""
        gate_up = self.gate_up(x)  # [rows, 2 * inner]
        gate, up = gate_up.narrow(1, 0, self._inner), gate_up.narrow(1, self._inner, self._inner)
        if self._gate_factor != 1.0:
            gate = gate * self._gate_factor
        return self.down(self._activation(gate, up))


class SquaredReluMlp:
    """`down(relu(up(x))^2)`.

    Args:
        source: of the weights, under the module's name.
        hidden: size of a row.
        inner: size of a row of up.
        bias: whether the projections have one.
    """

    def __init__(self, source: WeightSource, hidden: int, inner: int, *, bias: bool = False) -> None:
        self.up = source.linear({"up_proj": inner}, hidden, bias=bias)
        self.down = source.linear({"down_proj": hidden}, inner, bias=bias)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.up.nbytes + self.down.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        """Transform rows, `[rows, hidden]` to the same."""
        return self.down(F.relu(self.up(x)).square_())


Mlp: TypeAlias = GatedMlp | SquaredReluMlp


def read_mlp(
    source: WeightSource,
    hidden: int,
    inner: int,
    activation: Activation,
    *,
    bias: bool = False,
    gate_factor: float = 1.0,
    sparsity: float = 0.0,
) -> Mlp:
    """Return the MLP that has this activation, of which that share of the gates is cut off."""
    if activation == "relu2":
        return SquaredReluMlp(source, hidden, inner, bias=bias)
    joined = ACTIVATIONS[activation]
    if sparsity:
        joined = partial(sparse, joined=joined, deviations=NormalDist().inv_cdf(sparsity))
    return GatedMlp(source, hidden, inner, bias=bias, activation=joined, gate_factor=gate_factor)
