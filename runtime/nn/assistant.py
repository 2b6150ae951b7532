"""Gemma 4's drafters: small models that have no KV, and read that of the model that they draft for.

Source: transformers' `gemma4_assistant`, and its `SinglePositionMultiTokenCandidateGenerator`.

A round of drafts is computed at one position, that of the newest token, which the target has not read.  Its rows attend
to the target's KV before that position, each layer to that of the target's last layer of its kind.  The first row joins
the newest token's embedding with the target's hidden state before it; each row after it joins the token that was
drafted with what the row before has made of that state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from runtime.errors import CheckpointError
from runtime.kv.cache import LentKV
from runtime.nn.model import HiddenStates, Transformer
from runtime.nn.source import ShapeSource
from runtime.nn.stored_source import StoredSource, check_shapes
from runtime.nn.weights import load_weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.checkpoint.config import ModelConfig
    from runtime.checkpoint.open import Checkpoint
    from runtime.nn.layers.batch import Batch
    from runtime.nn.matrices.linear import Linear, WeightFormats
    from runtime.nn.source import WeightSource
    from runtime.nn.weights import Weights
    from runtime.step.step import Segment

_BEFORE, _BEHIND = "pre_projection", "post_projection"


@dataclass(frozen=True, slots=True)
class AssistantWeights:
    """The weights of an assistant.

    Attributes:
        decoder: its layers, and its embedding, which is the head alone.
        before: the target's embedding and hidden state, side by side, to its own hidden state.
        behind: its own hidden state to one in the target's place.
    """

    decoder: Weights
    before: Linear
    behind: Linear


def load_assistant(
    checkpoint: Checkpoint,
    target: ModelConfig,
    *,
    device: torch.device | str,
    dtype: torch.dtype,
    formats: WeightFormats | None = None,
) -> AssistantWeights:
    """Read an assistant, as `load_weights` does; `target` is the config of the model that it drafts for.

    Raises:
        CheckpointError: a file or tensor is missing, misshapen, unexpected or unreadable.
    """
    decoder = load_weights(checkpoint, device=device, dtype=dtype, formats=formats)
    stored = {name: tensor for name, tensor in checkpoint.tensors().items() if name.startswith((_BEFORE, _BEHIND))}
    shapes = ShapeSource(dtype)
    _projections(shapes, checkpoint.config, target)
    check_shapes(stored, shapes.shapes)
    source = StoredSource(stored, device, dtype, formats)
    return AssistantWeights(decoder, *_projections(source, checkpoint.config, target))


def projection_bytes(config: ModelConfig, target: ModelConfig, dtype: torch.dtype) -> int:
    """Return the bytes of the plain weights beside the decoder's."""
    return sum(projection.nbytes for projection in _projections(ShapeSource(dtype), config, target))


def _projections(source: WeightSource, config: ModelConfig, target: ModelConfig) -> tuple[Linear, Linear]:
    own, theirs = config.hidden_size, target.hidden_size
    return source.linear({_BEFORE: own}, 2 * theirs), source.linear({_BEHIND: theirs}, own)


def lending_layers(config: ModelConfig, target: ModelConfig) -> tuple[int, ...]:
    """Return for each layer of an assistant the target's whose KV it reads: the last one of its kind that has any.

    Raises:
        CheckpointError: there is none, or its KV has another shape.
    """
    lending = {target.window[layer] is None: layer for layer in target.kv_layers}
    found = []
    for layer, window in enumerate(config.window):
        lender = lending.get(window is None)
        if lender is None or window != target.window[lender]:
            raise CheckpointError(f"layer {layer} has a window of {window}, and none of the target's with KV has")
        shapes = config.layer_kv_shape(layer), target.layer_kv_shape(lender)
        if shapes[0] != shapes[1]:
            raise CheckpointError(f"layer {layer} reads KV of the shape {shapes[0]}, and the target's is {shapes[1]}")
        found.append(lender)
    return tuple(found)


class Assistant(Transformer):
    """A transformer whose rows lie behind the target's KV, one for each sequence.

    Its segments say with `first` where their round began, at the newest token; as long as the target has not read that,
    there is no KV of it.  So it computes a row of the position before, rotated as one at that position.

    Args:
        config: its own.
        weights: of that config.
        target: lends its KV and its embedding.
        states: where the target stores its hidden states; that before the newest token makes way for what the assistant
            goes on from.
    """

    def __init__(
        self, config: ModelConfig, weights: AssistantWeights, target: Transformer, states: HiddenStates
    ) -> None:
        kv = LentKV(target.kv, lending_layers(config, target.config))
        super().__init__(config, weights.decoder, kv, states)
        self._ropes = [(cos[1:], sin[1:]) for cos, sin in self._ropes]
        self._weights = weights
        self._target = target

    def begin(self, segments: Sequence[Segment]) -> Batch:
        """Begin a step, in which the rows are where the target's last ones are."""
        assert all(len(segment.token_ids) == 1 for segment in segments), "it reads the newest token alone"
        return super().begin([replace(segment, start=segment.first - 1, first=0) for segment in segments])

    def embed(self, token_ids: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Project the target's embeddings of the tokens, and the states before them, to `[rows, hidden]`."""
        assert self.states is not None
        embedded = self._target.embed(token_ids, places)
        return self._weights.before(torch.cat((embedded, self.states.read(places)), dim=-1))

    def store_states(self, batch: Batch, states: torch.Tensor) -> None:
        """Store what the next row goes on from, in the place of what this one did."""
        assert self.states is not None
        self.states.write(batch.places, self._weights.behind(states))
