"""A multi-token-prediction module as a drafter (DeepSeek-V3, arXiv 2412.19437, section 2.2).

It is one decoder layer over the target's own hidden states.  Its row at position j joins the embedding of token j with
the target's state at j - 1, and predicts token j + 1 through the target's head.  Position 0 has no row.

Several tokens are drafted by chaining: the module's own output at j takes the place of the target's state at j, which
is not known before the target has run.  So only the first row of a round is computed from the target's state; the rows
after it are computed again, with others, once the target's states are there (DESIGN.md, section 6).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from runtime.kv.cache import KVCache
from runtime.nn.layers.decoder_layer import DecoderLayer
from runtime.nn.layers.norm import read_norm
from runtime.nn.model import HiddenStates, Transformer
from runtime.nn.weights import Weights

if TYPE_CHECKING:
    from runtime.checkpoint.config import ModelConfig
    from runtime.checkpoint.mtp_layout import MtpLayout
    from runtime.nn.layers.batch import Batch
    from runtime.nn.layers.norm import Norm
    from runtime.nn.source import WeightSource


class MtpWeights:
    """The weights of one module; embedding and head are the target's.

    Args:
        source: of the weights; the left half of the projection takes the embedding.
        config: the target's.
        layout: the names of the parts.
    """

    def __init__(self, source: WeightSource, config: ModelConfig, layout: MtpLayout) -> None:
        hidden, first = config.hidden_size, layout.first

        def norm(name: str) -> Norm:
            return read_norm(source, f"{first}{name}", config)

        self.token_norm = norm(layout.token_norm)  # of the embedding
        self.state_norm = norm(layout.state_norm)  # of the target's state
        self.projection = source.linear({f"{first}{layout.projection}": hidden}, 2 * hidden)
        own = one_layer_config(config, experts=layout.experts)
        self.layer = DecoderLayer(source.under(first.removesuffix(".")), own, 0)
        self.final_norm = norm(layout.final_norm)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        parts = (self.token_norm, self.state_norm, self.projection, self.layer, self.final_norm)
        return sum(part.nbytes for part in parts)


class MtpModule(Transformer):
    """A transformer of one layer whose input is what the target has just computed.

    Args:
        config: the target's.
        weights: the module's own.
        target: lends its embedding and head.
        states: where the target stores its hidden states.
    """

    def __init__(self, config: ModelConfig, weights: MtpWeights, target: Transformer, states: HiddenStates) -> None:
        shared = target.weights
        super().__init__(
            one_layer_config(config),
            Weights(shared.embedding, (weights.layer,), weights.final_norm, shared.lm_head),
            KVCache(
                one_layer_config(config),
                slots=target.kv.slots,
                context=target.context,
                positions=target.kv.positions,
                device=shared.embedding.device,
                dtype=shared.embedding.dtype,
            ),
            states,
            capture=target.capture,
            row_kernels=target.row_kernels,
        )
        self._mtp = weights

    states_before = 1

    def embed(self, token_ids: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Project the tokens' embeddings and the states before them to `[rows, hidden]`."""
        assert self.states is not None
        embedded = self._mtp.token_norm(super().embed(token_ids, places))
        state = self._mtp.state_norm(self.states.read(places))
        return self._mtp.projection(torch.cat((embedded, state), dim=-1))

    def store_states(self, batch: Batch, states: torch.Tensor) -> None:
        """Store the states of the rows that a draft is drawn from: the target has not computed these positions yet.

        They are those after the module's own final norm, also where the target's are `pre_norm`: so the published
        modules are chained.
        """
        assert self.states is not None
        rows = batch.sampled_rows
        self.states.write(batch.places[rows], states[rows])


def one_layer_config(config: ModelConfig, *, experts: bool = False) -> ModelConfig:
    """Return the target's configuration with a single layer, which attends to everything.

    Args:
        config: the target's.
        experts: it has those of the target's last layer with any, and not a plain MLP.
    """
    own = [each for each in config.experts if experts and each is not None]
    return replace(
        config,
        num_layers=1,
        window=(None,),
        recurrent=(None,),
        ropes=config.distinct_ropes[:1] or (None,),
        experts=tuple(own[-1:]) or (None,),
        layer_shapes=(),
    )
