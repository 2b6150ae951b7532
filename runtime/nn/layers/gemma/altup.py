"""Several streams of hidden states, of which a layer computes the first and corrects all (Gemma 3n).

Before a layer, each stream is predicted from all; what the layer changes of the first is then added to each, by shares
that are made of the row itself: Alternating Updates (Baykal et al., arXiv 2301.13310).  Beside attention stands a
product of two small matrices: learned augmented residual layers (Menghani et al., arXiv 2411.07501).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from runtime.nn.layers.norm import read_norm
from runtime.nn.matrices.linear import total_bytes

if TYPE_CHECKING:
    from torch import Tensor

    from runtime.checkpoint.config import ModelConfig
    from runtime.nn.layers.norm import Norm
    from runtime.nn.source import WeightSource

LEAST_SQUARE = 1e-5  # of a stream, where it is brought to the length of another


class SplitStreams:
    """Makes streams of what goes into the first layer: itself, and projections that are as long.

    Args:
        source: of the weights, under the model's name.
        config: the model's.
    """

    def __init__(self, source: WeightSource, config: ModelConfig) -> None:
        names = [f"altup_projections.{other}" for other in range(config.streams - 1)]
        self.projections = source.linear(dict.fromkeys(names, config.hidden_size), config.hidden_size)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.projections.nbytes

    def __call__(self, embedded: Tensor) -> Tensor:
        """Return `[rows, streams, hidden]` of `[rows, hidden]`."""
        first = embedded.unsqueeze(1)
        others = self.projections(embedded).view(len(embedded), -1, embedded.shape[-1])
        return torch.cat([first, _as_long(others, first)], dim=1)


class JoinedStreams:
    """The final norm, of the mean of the first stream and projections of the others that are as long.

    Args:
        source: of the weights, under the model's name.
        config: the model's.
        norm: of the mean.
    """

    def __init__(self, source: WeightSource, config: ModelConfig, norm: Norm) -> None:
        hidden = config.hidden_size
        self.projections = [
            source.linear({f"altup_unembed_projections.{other}": hidden}, hidden) for other in range(config.streams - 1)
        ]
        self._norm = norm

    @property
    def weight(self) -> Tensor | None:
        """The norm's."""
        return self._norm.weight

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self._norm.nbytes + sum(projection.nbytes for projection in self.projections)

    def __call__(self, x: Tensor) -> Tensor:
        """Return `[rows, hidden]` of streams, `[rows, streams, hidden]`."""
        first, *others = x.unbind(1)
        projected = zip(self.projections, others, strict=True)
        return self._norm(torch.stack([first, *(_as_long(own(other), first) for own, other in projected)]).mean(0))


class AltUp:
    """What a layer does to all streams, before and behind what it computes of the first.

    Args:
        source: of the weights, under the layer's name.
        config: the model's.
    """

    def __init__(self, source: WeightSource, config: ModelConfig) -> None:
        own, streams, hidden = source.under("altup"), config.streams, config.hidden_size
        self.norm = read_norm(own, "router_norm", config)
        self.router = own.tensor("modality_router.weight", streams, hidden)
        self.prediction = own.tensor("prediction_coefs.weight", streams**2, streams)
        self.correction = own.tensor("correction_coefs.weight", streams, streams)
        self.scale = own.tensor("correct_output_scale", hidden)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.norm.nbytes + total_bytes(self.router, self.prediction, self.correction, self.scale)

    def predict(self, streams: Tensor) -> Tensor:
        """Predict `[rows, streams, hidden]`, in place; returns a copy of the first stream."""
        rows, count, _ = streams.shape
        shares = F.linear(self._route(streams[:, 0]), self.prediction).view(rows, count, count)
        streams.add_(shares @ streams)
        return streams[:, 0].clone()

    def correct(self, streams: Tensor, computed: Tensor) -> tuple[Tensor, Tensor]:
        """Correct the streams by what became of the first, `[rows, hidden]`, in place.

        Returns:
            What the layer's input is made of, `[rows, hidden]`, and what it is added to: all streams but the first,
            `[streams - 1, rows, hidden]`.
        """
        shares = F.linear(self._route(computed), self.correction) + 1
        streams.add_(shares.unsqueeze(-1) * (computed - streams[:, 0]).unsqueeze(1))
        return streams[:, 0] * self.scale, streams[:, 1:].transpose(0, 1)

    def _route(self, x: Tensor) -> Tensor:
        """Return what shares are made of, `[rows, streams]`."""
        return F.linear(self.norm(x) / x.shape[-1], self.router).tanh()


class Laurel:
    """Rows, and a normalised product of them with two matrices of few columns and rows.

    Args:
        source: of the weights, under the layer's name.
        config: the model's.
    """

    def __init__(self, source: WeightSource, config: ModelConfig) -> None:
        own, rank, hidden = source.under("laurel"), config.laurel_rank, config.hidden_size
        self.left = own.linear({"linear_left": rank}, hidden)
        self.right = own.linear({"linear_right": hidden}, rank)
        self.norm = read_norm(own, "post_laurel_norm", config)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.left.nbytes + self.right.nbytes + self.norm.nbytes

    def __call__(self, x: Tensor, hidden: Tensor) -> None:
        """Add what becomes of `x` to `hidden`, both `[rows, hidden]`, in place, for a mean of the two."""
        hidden.add_(x).add_(self.norm(self.right(self.left(x)))).mul_(math.sqrt(0.5))


def _as_long(x: Tensor, like: Tensor) -> Tensor:
    """Scale `[..., hidden]` so that the mean square is that of `like`."""
    wanted, given = (one.float().square().mean(-1, keepdim=True) for one in (like, x))
    return (x.float() * (wanted / given.clamp(min=LEAST_SQUARE)).sqrt()).to(x.dtype)
