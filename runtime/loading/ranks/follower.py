"""A rank other than 0: from what to load to the end of rank 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from runtime.checkpoint.open import open_checkpoint
from runtime.devices.parallel.group import Group, process_group, sums_of
from runtime.devices.parallel.share import share_config
from runtime.errors import CedeError
from runtime.kv.cache import KVCache
from runtime.kv.rings import plan_rings
from runtime.loading.others import Loaded, NotLoaded
from runtime.nn.matrices.formats import choose_formats
from runtime.nn.rank_model import FollowingModel
from runtime.nn.weights import load_weights
from runtime.step.device import select_device, select_dtype

if TYPE_CHECKING:
    from runtime.devices.parallel.lines import Line
    from runtime.loading.others import Sizes, Start


def follow(line: Line) -> None:
    """Load what rank 0 says, and do what it says until it is gone.

    Raises:
        DeviceLost: another rank is gone.
        EOFError: rank 0 is gone, before it had this one follow.
    """
    start: Start = line.receive()
    torch.set_num_threads(start.threads)
    model = _load(start, line)
    if model is not None:
        model.follow(line)


def _load(start: Start, line: Line) -> FollowingModel | None:
    """Load the share, and join the other ranks; None where it cannot be loaded, which rank 0 has been told."""
    options, share = start.options, start.share
    checkpoint = open_checkpoint(options.path)
    config = checkpoint.config
    device = select_device(options.device)
    if device.type == "cuda":
        device = torch.device(device.type, share.rank)
        torch.cuda.set_device(device)
    dtype = select_dtype(options.dtype, device, config.dtype)
    try:
        formats = choose_formats(options.quantize, device, dtype)
        weights = load_weights(checkpoint, device=device, dtype=dtype, formats=formats, share=share)
    except CedeError as error:
        line.send(NotLoaded(str(error)))
        return None
    line.send(Loaded())
    sizes: Sizes = line.receive()
    own = share_config(config, share.of)
    kv = KVCache(
        own,
        slots=options.slots,
        context=sizes.context,
        positions=sizes.positions,
        device=device,
        dtype=dtype,
        rings=plan_rings(config.ring_windows, sizes.context),
    )
    return FollowingModel(own, weights, kv, Group(share, sums_of(process_group(share, start.store, device))))
