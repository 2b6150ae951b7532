"""The weights of a multi-token-prediction module: finding them in a checkpoint, and loading them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.checkpoint.families.table import FAMILIES
from runtime.checkpoint.latent_rows import order_rotated_rows
from runtime.checkpoint.mtp_layout import BESIDE, DEEPSEEK, REPEATED, published_layout
from runtime.checkpoint.stored import SelectedColumns
from runtime.errors import CheckpointError
from runtime.nn.mtp import MtpWeights
from runtime.nn.source import ShapeSource
from runtime.nn.stored_source import StoredSource, check_shapes

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from runtime.checkpoint.config import ModelConfig
    from runtime.checkpoint.mtp_layout import MtpLayout
    from runtime.checkpoint.open import Checkpoint
    from runtime.checkpoint.stored import StoredTensor
    from runtime.nn.matrices.linear import WeightFormats

# What names of such tensors have in common in published checkpoints (Qwen3-Next, GLM-4.5, DeepSeek-V3, MiMo, …).
_OF_A_MODULE = re.compile(r"(^|[._])(mtp|nextn|enorm|hnorm|eh_proj)")


@dataclass(frozen=True, slots=True)
class MtpSource:
    """Source of a module's weights: the layout of their names, and its own tensors by name."""

    layout: MtpLayout
    tensors: Mapping[str, StoredTensor]


def find_mtp(checkpoint: Checkpoint) -> MtpSource | None:
    """Find the module of a checkpoint; None where it has none in a layout that cede knows.

    Raises:
        CheckpointError: a file is missing or broken.
    """
    tensors, config = checkpoint.tensors(), checkpoint.config
    for layout in (DEEPSEEK, FAMILIES[config.architecture].mtp, published_layout(config.num_layers)):
        if layout is not None and f"{layout.first}{layout.projection}.weight" in tensors:
            own = {name: stored for name, stored in tensors.items() if name.startswith(layout.first)}
            for name in REPEATED:
                own.pop(f"{layout.first}{name}", None)
            return MtpSource(layout, own)
    return None


def missing_mtp(checkpoint: Checkpoint) -> CheckpointError:
    """Return the error to raise for a checkpoint without; it names a tensor of a module in another layout, if any."""
    known = f"{BESIDE} with the names of DeepSeek-V3, its own layers behind the last, Qwen's, Nemotron's and MiMo's"
    names = list(checkpoint.tensors())
    other = next((name for name in names if name.startswith(DEEPSEEK.modules) or _OF_A_MODULE.search(name)), None)
    what = "has no module for multi-token prediction"
    if other is not None:
        what = f"{_name_in_file(other)} is of a form that is not known"
    return CheckpointError(f"{checkpoint.path}: {what}; these are: {known}")


def load_mtp_weights(
    source: MtpSource,
    config: ModelConfig,
    *,
    device: torch.device | str,
    dtype: torch.dtype,
    formats: WeightFormats | None = None,
) -> MtpWeights:
    """Read a module, as `load_weights` does.

    Args:
        source: what `find_mtp` found.
        config: the target's.
        device: where the weights are to be.
        dtype: of plain weights, and of what is computed with packed ones.
        formats: what the matrices are packed to; None leaves them plain.

    Raises:
        CheckpointError: a tensor is missing, misshapen or unexpected, or a file is unreadable.
    """
    shapes = ShapeSource(dtype)
    MtpWeights(shapes, config, source.layout)
    check_shapes(
        {_name_in_file(name): stored for name, stored in source.tensors.items()},
        {_name_in_file(name): shape for name, shape in shapes.shapes.items()},
    )
    tensors = dict(source.tensors)
    if config.latent is not None:
        tensors = order_rotated_rows(tensors, config.latent)
    if source.layout.state_first:
        projection = f"{source.layout.first}{source.layout.projection}.weight"
        hidden = config.hidden_size
        tensors[projection] = SelectedColumns(tensors[projection], [*range(hidden, 2 * hidden), *range(hidden)])
    return MtpWeights(StoredSource(tensors, device, dtype, formats), config, source.layout)


def mtp_bytes(config: ModelConfig, dtype: torch.dtype, layout: MtpLayout = DEEPSEEK) -> int:
    """Return the bytes of a module's plain weights, for a target of `config`."""
    return MtpWeights(ShapeSource(dtype), config, layout).nbytes


def _name_in_file(name: str) -> str:
    return name.removeprefix(DEEPSEEK.modules)
