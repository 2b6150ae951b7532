"""Models on the fake MPS, and what the host reads and sends in their steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from runtime.checkpoint.config import ModelConfig
from runtime.kv.cache import KVCache
from runtime.kv.states import StateBuffers
from runtime.nn.layers.batch import Batch
from runtime.nn.matrices import formats
from runtime.nn.matrices.quantization import Quantization
from runtime.nn.model import Transformer
from runtime.nn.weights import build_weights
from runtime.step.step import Segment
from tests.fakes.devices.mps import MPS, Traffic
from tests.fakes.weights import EmptySource
from tests.models.step_driver import run, with_states
from tests.scenarios.devices.steps import NOT_ON_MPS, Recorder


def on_mps(
    config: ModelConfig,
    dtype: torch.dtype,
    quantization: Quantization = Quantization.NONE,
    kind: type[Transformer] = Transformer,
    *rest: Any,  # noqa: ANN401
    **more: Any,  # noqa: ANN401
) -> Transformer:
    """Return a model whose weights and KV are on the fake MPS."""
    weights = build_weights(EmptySource(MPS, dtype, formats.choose_formats(quantization, MPS, dtype)), config)
    kv = KVCache(config, slots=4, context=128, device=MPS, dtype=dtype)
    if config.is_hybrid:
        more["buffers"] = StateBuffers(config, count=4 * 129, device=MPS, dtype=dtype)
    return kind(config, weights, kv, *rest, **more)


class Watched:
    """A model, with what it sends to its device at each `begin` and `shrink`; the traffic then holds the rest."""

    def __init__(self, model: Transformer, traffic: Traffic) -> None:
        self.num_layers = model.num_layers
        self.transfers: list[list[str]] = []
        self.run_layer, self.abandon, self.finish = model.run_layer, model.abandon, model.finish
        self.transfer = model.transfer
        self._model = model
        self._traffic = traffic

    def begin(self, segments: Sequence[Segment]) -> Batch:
        """Begin, and note what was sent to the device meanwhile."""
        batch = self._model.begin(segments)
        self._set_aside()
        return batch

    def shrink(self, batch: Batch, kept: Sequence[int]) -> None:
        """Shrink, and note what was sent to the device meanwhile."""
        self._model.shrink(batch, kept)
        self._set_aside()

    def _set_aside(self) -> None:
        self.transfers.append(self._traffic.sent.copy())
        self._traffic.sent.clear()


def reads_of(
    traffic: Traffic, model: Transformer, segments: Sequence[Segment], cancelled: int | None = None
) -> list[str]:
    """Return what the host reads during a step, in whose first layer one segment may be cancelled.

    All that it sends, to the sampler too, it sends in one tensor of each type: before the layers, and where rows are
    dropped.
    """
    traffic.clear()
    segments = with_states(model, segments)
    watched = Watched(model, traffic)
    with Recorder() as recorder:
        results = run(watched, segments, {} if cancelled is None else {1: [segments[cancelled]]}).segments
    assert [result.computed for result in results] == [i != cancelled for i in range(len(segments))]
    lacking = [operation for operation in recorder.seen if operation.dtypes & NOT_ON_MPS]
    assert not lacking, f"MPS lacks a type of {lacking}"
    assert all(1 <= len(sent) <= 2 for sent in watched.transfers), "sent in pieces"
    assert not traffic.sent, "sent behind the layers"
    return traffic.read
