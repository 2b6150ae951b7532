"""A mixture of experts (Shazeer et al., arXiv 1701.06538): each row goes through a few of a layer's MLPs.

Rows are grouped by expert, so that each expert that any row goes through, and no other, is read once.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from runtime.nn.layers.mlp import GatedMlp, read_mlp
from runtime.nn.layers.norm import read_norm
from runtime.nn.layers.router import Router

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from runtime.checkpoint.config import ModelConfig
    from runtime.checkpoint.families.activations import Activation
    from runtime.checkpoint.layer_config import ExpertsConfig
    from runtime.nn.layers.mlp import Mlp
    from runtime.nn.source import WeightSource


class MixtureOfExperts:
    """The sum of a row's experts, each times the router's weight, and of an MLP for all rows where there is one.

    A row's result is added up in the order in which the router ranks its experts, whoever else is in the batch.

    Args:
        source: of the weights, under the module's name.
        hidden: size of a row.
        config: of the experts.
        activation: of each, where that is not clamped.
    """

    def __init__(
        self,
        source: WeightSource,
        hidden: int,
        config: ExpertsConfig,
        activation: Activation = "silu",
    ) -> None:
        read: Callable[..., Mlp] = partial(read_mlp, activation=activation)
        if config.clamped is not None:
            read = partial(GatedMlp, activation=partial(clamped_swiglu, clamped=config.clamped))
        self.router = Router(source.under("gate"), hidden, config)
        width = config.latent_size or hidden
        self.experts = [
            read(source.under(f"experts.{index}"), width, config.intermediate_size, bias=config.bias)
            for index in range(config.count)
        ]
        self.latent_down = source.linear({"fc1_latent_proj": width}, hidden) if config.latent_size else None
        self.latent_up = source.linear({"fc2_latent_proj": hidden}, width) if config.latent_size else None
        self.shared: Mlp | None = None
        self.shared_gate = source.tensor("shared_expert_gate.weight", 1, hidden) if config.shared_gate else None
        if config.shared_size:
            self.shared = read_mlp(source.under("shared_experts"), hidden, config.shared_size, activation)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        others = self.shared, self.shared_gate, self.latent_down, self.latent_up
        return self.router.nbytes + sum(part.nbytes for part in (*self.experts, *others) if part is not None)

    def __call__(self, x: Tensor, scored: Tensor | None = None) -> Tensor:
        """Transform rows, `[rows, hidden]` to the same; `scored` is what the router sees of them, if not `x`."""
        weights, experts = self.router(x if scored is None else scored)  # [rows, per row] each
        rows, per_row = experts.shape
        by_expert, places = experts.flatten().sort()  # [rows * per row]: each row as often as it has experts
        met = _read_met(by_expert)
        given = x if self.latent_down is None else self.latent_down(x)
        entering = given[torch.div(places, per_row, rounding_mode="floor")].split_with_sizes(list(met.values()))
        leaving = torch.cat([self.experts[expert](own) for expert, own in zip(met, entering, strict=True)])
        ranked = torch.empty_like(leaving)
        ranked[places] = leaving
        weighted = ranked.view(rows, per_row, -1) * weights.unsqueeze(-1)  # float32
        routed = weighted.sum(1).to(x.dtype)
        routed = routed if self.latent_up is None else self.latent_up(routed)
        if self.shared is None:
            return routed
        shared = self.shared(x)
        return routed.add_(shared if self.shared_gate is None else shared * F.linear(x, self.shared_gate).sigmoid())


class ExpertsBesideMlp:
    """Experts that read what the layer's MLP reads, before its norm; the results of both are added (Gemma 4).

    Args:
        source: of the weights, under the layer's name.
        config: the model's.
        index: of the layer.
    """

    def __init__(self, source: WeightSource, config: ModelConfig, index: int) -> None:
        experts = config.experts[index]
        assert experts is not None
        self.before = read_norm(source, "pre_feedforward_layernorm_2", config)
        self.experts = MixtureOfExperts(source.under("mlp"), config.hidden_size, experts, config.activation)
        self.after = read_norm(source, "post_feedforward_layernorm_2", config)
        self.after_mlp = read_norm(source, "post_feedforward_layernorm_1", config)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.experts.nbytes + sum(norm.nbytes for norm in (self.before, self.after, self.after_mlp))

    def __call__(self, hidden: Tensor, added: Tensor) -> Tensor:
        """Return what is added to rows of `hidden`, `[rows, hidden]`; `added` is what the MLP makes of them."""
        return self.after_mlp(added).add_(self.after(self.experts(self.before(hidden), hidden)))


def _read_met(by_expert: Tensor) -> Counter[int]:
    """Read from the device which experts are met, and by how many rows; `by_expert` is sorted, and so is the result.

    Only the host can choose among matrices, so it waits here, once in each layer with experts (docs/understand/mps.md).
    """
    return Counter(by_expert.tolist())


def clamped_swiglu(gate: Tensor, up: Tensor, clamped: tuple[float, float]) -> Tensor:
    """Return gpt-oss's `gate * sigmoid(gain * gate) * (up + 1)`, where neither is larger than the limit.

    Args:
        gate: `[rows, inner]`; is bounded from above alone.
        up: likewise; is bounded from below, too.
        clamped: the gain, and the limit.
    """
    gain, limit = clamped
    gate = gate.clamp(max=limit)
    return torch.sigmoid(gain * gate).mul_(gate).mul_(up.clamp(-limit, limit).add_(1))
