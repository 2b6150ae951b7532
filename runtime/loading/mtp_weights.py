"""The weights of a multi-token-prediction module: finding them in a checkpoint, and loading them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from runtime.checkpoint.families import FAMILIES
from runtime.checkpoint.mtp_layout import BESIDE, DEEPSEEK
from runtime.checkpoint.shards import check_shapes, read_shard, read_shards
from runtime.checkpoint.tensor_reader import TensorReader
from runtime.errors import CheckpointError
from runtime.nn.linear import Linear
from runtime.nn.mtp import MtpWeights
from runtime.nn.weights import allocate_layer, layer_by_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runtime.checkpoint.config import ModelConfig
    from runtime.checkpoint.mtp_layout import MtpLayout
    from runtime.checkpoint.shards import Shard, TensorEntry

# What names of such tensors have in common in published checkpoints (Qwen3-Next, GLM-4.5, DeepSeek-V3, MiMo, …).
_OF_A_MODULE = re.compile(r"(^|[._])(mtp|nextn|enorm|hnorm|eh_proj)")


@dataclass(frozen=True, slots=True)
class MtpSource:
    """Where a module's weights are: the layout of their names, and the files."""

    layout: MtpLayout
    shards: tuple[Shard, ...]

    @property
    def tensors(self) -> dict[str, TensorEntry]:
        """The module's own tensors, by name."""
        return {
            name: entry
            for shard in self.shards
            for name, entry in shard.tensors.items()
            if name.startswith(self.layout.first)
        }


def find_mtp(folder: Path, config: ModelConfig) -> MtpSource | None:
    """Find the module in `folder`; None where it has none in a layout that cede knows.

    Raises:
        CheckpointError: a file is missing or broken.
    """
    source = None
    if (folder / BESIDE).is_file():
        source = MtpSource(DEEPSEEK, (read_shard(folder / BESIDE),))
    elif (layout := FAMILIES[config.architecture].mtp) is not None:
        source = MtpSource(layout, read_shards(folder))
    if source is None or f"{source.layout.first}{source.layout.projection}.weight" not in source.tensors:
        return None
    return source


def missing_mtp(folder: Path) -> CheckpointError:
    """Return the error to raise for a checkpoint without; it names a tensor of a module in another layout, if any."""
    known = f"{BESIDE} with the names of DeepSeek-V3, and MiMo's model.mtp_layers"
    beside = (read_shard(folder / BESIDE),) if (folder / BESIDE).is_file() else ()
    names = [name for shard in (*beside, *read_shards(folder)) for name in shard.tensors]
    other = next((name for name in names if beside or _OF_A_MODULE.search(name)), None)
    what = "has no module for multi-token prediction" if other is None else f"{other} is of a form that is not known"
    return CheckpointError(f"{folder}: {what}; these are: {known}")


def load_mtp_weights(
    source: MtpSource, config: ModelConfig, *, device: torch.device | str, dtype: torch.dtype
) -> MtpWeights:
    """Read a module, as `load_weights` does.

    Args:
        source: what `find_mtp` found.
        config: the target's.
        device: where the weights are to be.
        dtype: theirs.

    Raises:
        CheckpointError: a tensor is missing, misshapen or unexpected, or a file is unreadable.
    """
    expected = {
        name: tuple(t.shape) for name, t in _by_name(allocate_mtp(config, "meta", dtype), config, source.layout)
    }
    check_shapes(source.tensors, expected)
    weights = allocate_mtp(config, device, dtype)
    TensorReader(source.shards, source.tensors).fill(dict(_by_name(weights, config, source.layout)))
    if source.layout.state_first:
        weights.projection.weight.copy_(weights.projection.weight.roll(config.hidden_size, dims=1))
    return weights


def mtp_bytes(config: ModelConfig, dtype: torch.dtype) -> int:
    """Return the bytes of a module's plain weights, for a target of `config`."""
    return sum(place.nbytes for _, place in _by_name(allocate_mtp(config, "meta", dtype), config, DEEPSEEK))


def allocate_mtp(config: ModelConfig, device: torch.device | str, dtype: torch.dtype) -> MtpWeights:
    """Allocate a module's tensors, not filled."""

    def empty(*shape: int) -> torch.Tensor:
        return torch.empty(shape, device=device, dtype=dtype)

    hidden = config.hidden_size
    return MtpWeights(
        token_norm=empty(hidden),
        state_norm=empty(hidden),
        projection=Linear(empty(hidden, 2 * hidden)),
        layer=allocate_layer(config, device, dtype),
        final_norm=empty(hidden),
    )


def _by_name(weights: MtpWeights, config: ModelConfig, layout: MtpLayout) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield each tensor's name in the checkpoint, with the part of `weights` that holds it."""
    yield f"{layout.first}{layout.token_norm}.weight", weights.token_norm
    yield f"{layout.first}{layout.state_norm}.weight", weights.state_norm
    yield f"{layout.first}{layout.projection}.weight", weights.projection.weight
    for name, place in layer_by_name(weights.layer, config):
        yield f"{layout.first}{name}", place
    yield f"{layout.first}{layout.final_norm}.weight", weights.final_norm
