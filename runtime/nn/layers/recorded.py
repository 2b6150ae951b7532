"""Decoder layers that were recorded for steps of few rows: one call for each, instead of one for each operation.

A device that queues work takes a small step's operations faster than the host can send them, so it waits for the host.
What was recorded reads and writes the same memory each time: a step's rows are copied there, and leave it at the end.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import torch

from runtime.common.units import counted
from runtime.devices.single_rows.rows import NO_PLACE, RowTable, SingleRows, table_numbers
from runtime.kv.pages import pages_for
from runtime.nn.layers.batch import LayerRows
from runtime.nn.layers.decoder_layer import DecoderLayer
from runtime.nn.layers.mlp import GatedMlp
from runtime.nn.layers.self_attention import SelfAttention

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from runtime.checkpoint.config import ModelConfig
    from runtime.devices.cuda.capture import Capture
    from runtime.kv.cache import KVCache
    from runtime.nn.layers.batch import Batch
    from runtime.sampling.staging import StagedTensor, StagingBuffer
    from runtime.step.step import Segment

# Rows of what is recorded; a step takes the least that holds its own.
SIZES = (1, 2, 4, 8, 16, 32, 64)
MOST_DIM = 256  # of a head: the kernels of single rows were not run with more, which may not fit a GPU's registers

logger = logging.getLogger("cede.model")


class NotRecorded(Exception):
    """Reason why a layer cannot be recorded, in words for the log."""


class RecordedLayers:
    """Runs the layers of steps of few rows by what was recorded of them, at once when it is made.

    The device thread alone uses it, for one step at a time.

    Args:
        layers: of the model; those that cannot be recorded are run as they are.
        config: the model's.
        kv: whose tensors stay where they are.
        capture: records.
    """

    def __init__(self, layers: Sequence[object], config: ModelConfig, kv: KVCache, capture: Capture) -> None:
        self._replays: dict[tuple[int, int], Callable[[], None]] = {}
        device = kv.layer(0)[0].device
        began = time.monotonic()
        pages = pages_for(kv.context)
        self._rows = {size: _static_rows(size, pages, config, device, kv.dtype, capture) for size in SIZES}
        refused: Counter[str] = Counter()
        for index, layer in enumerate(layers):
            try:
                work = partial(_recordable(layer), kv=kv)
                replays = {(size, index): capture(partial(work, rows)) for size, rows in self._rows.items()}
            except (NotRecorded, RuntimeError) as why:  # the latter is PyTorch's, of an operation that cannot be
                refused[str(why)] += 1
            else:
                self._replays |= replays
        for reason, count in refused.items():
            logger.info("not recorded: %s: %s", counted(count, "layer"), reason)
        self.count = len(layers) - refused.total()
        logger.info(
            "few rows of %s by CUDA graphs, recorded in %.1f s", counted(self.count, "layer"), time.monotonic() - began
        )

    def stage(self, segments: Sequence[Segment], staging: StagingBuffer) -> tuple[int, StagedTensor] | None:
        """Stage where the rows of a step lie, and say of which size; None if there are too many."""
        count = sum(len(segment.token_ids) for segment in segments)
        size = next((size for size in SIZES if size >= count), None)
        return None if size is None or not self._replays else (size, staging.ints(table_numbers(segments, size)))

    def take(self, batch: Batch, staged: tuple[int, StagedTensor]) -> None:
        """Copy a step's rows to where the recorded layers find them; `staged` is what `stage` gave and was sent."""
        size, numbers = staged[0], staged[1].tensor.view(-1, staged[0])
        rows, count = self._rows[size], batch.hidden.shape[0]
        assert rows.single is not None
        rows.single.table.numbers[: len(numbers)].copy_(numbers)  # no row sees a page behind these
        rows.hidden[:count].copy_(batch.hidden)
        for own, given in zip(rows.rotations, batch.rotations, strict=True):
            for static, computed in zip(own, given, strict=True):
                static[:count].copy_(computed)
        if rows.query_scale is not None and batch.query_scale is not None:
            rows.query_scale[:count].copy_(batch.query_scale)
        if rows.layer_inputs is not None and batch.layer_inputs is not None:
            rows.layer_inputs[:count].copy_(batch.layer_inputs)
        batch.hidden, batch.recorded = rows.hidden[:count], size

    def run(self, batch: Batch, index: int) -> bool:
        """Run one layer of a step; whether it could."""
        replay = self._replays.get((batch.recorded, index))
        if replay is None:
            return False
        replay()
        return True


def _static_rows(
    size: int, pages: int, config: ModelConfig, device: torch.device, dtype: torch.dtype, capture: Capture
) -> LayerRows:
    """Return rows that stay in place, of sequences of so many pages at most; all of them none."""
    numbers = torch.zeros(4 + pages, size, device=device, dtype=torch.int64)
    numbers[0] = NO_PLACE

    def angles(width: int) -> Tensor:
        return torch.zeros(size, 1, width, device=device, dtype=dtype)

    given = None
    if config.layer_input_size:
        given = torch.zeros(size, config.num_layers, config.layer_input_size, device=device, dtype=dtype)
    return LayerRows(
        segments=[],
        ranges=[],
        hidden=torch.zeros(size, *config.row_shape, device=device, dtype=dtype),
        rotations=[(angles(rope.rotary_dim), angles(rope.rotary_dim)) for rope in config.distinct_ropes],
        query_scale=None if config.scales.query is None else angles(1).float(),
        masks={},
        layer_inputs=given,
        single=SingleRows(RowTable(numbers), capture.kernels),
    )


def _recordable(layer: object) -> DecoderLayer:
    """Return a layer of which all happens on the device.  Raises NotRecorded."""
    if not isinstance(layer, DecoderLayer):
        raise NotRecorded("kernels of another kind")
    has_experts = layer.beside_mlp is not None or not isinstance(layer.mlp, GatedMlp)
    if has_experts or not isinstance(layer.attention, SelfAttention):
        raise NotRecorded("latent attention, recurrence, or experts")
    if layer.attention.dim > MOST_DIM:
        raise NotRecorded(f"heads of {layer.attention.dim} numbers")
    return layer
