"""Loading a model that several ranks compute together: rank 0's part, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from runtime.devices.parallel.share import check_shares, share_config
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from runtime.checkpoint.config import ModelConfig
    from runtime.devices.parallel.kv import KVSizes
    from runtime.loading.options import LoadOptions
    from runtime.loading.others import OtherRanks
    from runtime.nn.model import HiddenStates
    from runtime.nn.rank_model import LeadingModel
    from runtime.nn.weights import Weights


def check_together(options: LoadOptions, config: ModelConfig, device: torch.device) -> None:
    """Check that there are devices for all ranks, and that the model can be divided among them.

    Raises:
        CheckpointError: there are not, or it cannot.
    """
    of = options.tensor_parallel
    check_shares(config, of)
    if of > 1 and device.type == "mps":
        raise CheckpointError(f"--tensor-parallel {of}: a Mac has one MPS device, so there is nothing to divide among")
    if device.type == "cuda" and of > torch.cuda.device_count():
        raise CheckpointError(f"--tensor-parallel {of}: there are {torch.cuda.device_count()} CUDA devices")


def on_one_device(config: ModelConfig, options: LoadOptions, device: torch.device) -> ModelConfig:
    """Return what of a model is on the device whose memory bounds it: all of it in host memory, and else a share."""
    return config if device.type == "cpu" else share_config(config, options.tensor_parallel)


def lead(
    config: ModelConfig, weights: Weights, sizes: KVSizes, states: HiddenStates | None, others: OtherRanks
) -> LeadingModel:
    """Make rank 0's model of its share of the weights, and join the other ranks, which have theirs.

    Args:
        config: the whole model's.
        weights: rank 0's share.
        sizes: of the KV.
        states: as of `Transformer`.
        others: the other ranks.
    """
    from runtime.devices.parallel.kv import DividedKV  # what no other model needs
    from runtime.nn.rank_model import LeadingModel

    kv = DividedKV(config, others.share.of, others.lines, **sizes)
    group = others.join(sizes["context"], sizes["positions"], sizes["device"])
    return LeadingModel(share_config(config, others.share.of), weights, kv, group, others.lines, states)
