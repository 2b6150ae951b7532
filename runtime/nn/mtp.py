"""A multi-token-prediction module as a drafter (DeepSeek-V3, arXiv 2412.19437, section 2.2).

One decoder layer over the target's own hidden states.  Its row at position j joins the embedding of token j with the
target's state at j - 1, and scores token j + 1 through the target's head.  Position 0 has no row.

Several tokens are drafted by chaining: the module's own output at j takes the place of the target's state at j, which
is not known before the target has run.  So only the first row of a round stands on the target; the rows after it are
computed again, with others, once the target's states are there (`Slot.draft_length` in `actors.core.slots`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from runtime.kv.cache import KVCache
from runtime.nn.model import Batch, HiddenStates, Transformer
from runtime.nn.weights import Weights

if TYPE_CHECKING:
    from runtime.checkpoint.config import ModelConfig
    from runtime.nn.linear import Form, Linear
    from runtime.nn.weights import LayerWeights


@dataclass(frozen=True, slots=True)
class MtpWeights:
    """One module; embedding and head are the target's.

    Attributes:
        token_norm, state_norm: `[hidden]`, of the embedding and of the target's state.
        projection: `2 * hidden` to `hidden`; its left half takes the embedding.
        layer: a decoder layer of the target's shape.
        final_norm: `[hidden]`.
    """

    token_norm: torch.Tensor
    state_norm: torch.Tensor
    projection: Linear
    layer: LayerWeights
    final_norm: torch.Tensor

    def pack(self, form: Form) -> None:
        """As `Weights.pack`; the head is the target's."""
        self.projection.pack(form)
        self.layer.pack(form)


class MtpModule(Transformer):
    """A transformer of one layer whose input is what the target has just computed."""

    def __init__(self, config: ModelConfig, weights: MtpWeights, target: Transformer, states: HiddenStates) -> None:
        """`config` is the target's, and `target` keeps its `states`."""
        shared = target.weights
        super().__init__(
            one_layer(config),
            Weights(shared.embedding, (weights.layer,), weights.final_norm, shared.lm_head),
            KVCache(
                one_layer(config),
                slots=target.kv.slots,
                context=target.context,
                device=shared.embedding.device,
                dtype=shared.embedding.dtype,
            ),
            states,
        )
        self._mtp = weights

    def _embed(self, token_ids: torch.Tensor, slots: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        assert self.states is not None
        shape, eps = (self.config.hidden_size,), self.config.norm_eps
        embedded = F.rms_norm(super()._embed(token_ids, slots, positions), shape, self._mtp.token_norm, eps)
        state = F.rms_norm(self.states.read(slots, positions - 1), shape, self._mtp.state_norm, eps)
        return self._mtp.projection(torch.cat((embedded, state), dim=-1))

    def _keep_states(self, batch: Batch, states: torch.Tensor) -> None:
        """Only of the rows that a draft is drawn from: they are where the target has not been yet.

        After the module's own final norm, also where the target's are `raw`: so the published forms are chained.
        """
        assert self.states is not None
        rows = batch.sampled
        self.states.write(batch.slots[rows], batch.positions[rows], states[rows])


def one_layer(config: ModelConfig) -> ModelConfig:
    """The target's configuration cut down to a single layer, which attends to everything."""
    return replace(config, num_layers=1, window=(None,), rotary=(True,))
