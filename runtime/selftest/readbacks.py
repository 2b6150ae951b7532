"""Count of the host's waits for the device to read from it.

One read a step is what there is to be, and one in each layer with experts, where the host has to know which are met.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from runtime.selftest.findings import Figures, Mismatch, NotHere
from runtime.selftest.rates import decode, prefill, random_prompt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch._ops import OpOverload

    from runtime.checkpoint.config import ModelConfig
    from runtime.nn.model import Transformer

DEPTH, STEPS = 8, 4
# Operations whose result's shape, or value on the host, depends on what is in a tensor.
DATA_DEPENDENT = {"aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::equal"}


class Readbacks(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts, by operation, what is read from a device that queues its work."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[str] = []

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> object:
        """Run the operation, and note it if its result is read on the host."""
        result = func(*args, **(kwargs or {}))
        name = func.name().partition(".")[0]  # type: ignore[no-untyped-call]
        written = args[:1] if name == "aten::copy_" else tree_leaves(result)
        if _on_device((args, kwargs)) and (name in DATA_DEPENDENT or _on_host(written)):
            self.seen.append(name)
        return result


def check_readbacks(model: Transformer) -> Figures:
    """Decode a few tokens on the device thread, and count.

    Raises:
        Mismatch: there are more than `expected_reads` in a step.
        NotHere: the device does not queue.
    """
    device = model.weights.embedding.device
    if device.type == "cpu":
        raise NotHere("the CPU queues nothing, so nothing is waited for")
    prefill(model, 0, random_prompt(model, DEPTH, 0))
    with Readbacks() as readbacks:
        decode(model, 1, DEPTH, STEPS)
    figures: Figures = {"reads_per_step": len(readbacks.seen) / STEPS, "steps": STEPS}
    if len(readbacks.seen) > STEPS * expected_reads(model.config):
        raise Mismatch(f"the host reads from the device by {', '.join(sorted(set(readbacks.seen)))}", figures)
    return figures


def expected_reads(config: ModelConfig) -> int:
    """Return how often the host reads from the device in a step: at its end, and in each layer with experts."""
    return 1 + sum(experts is not None for experts in config.experts)


def _on_device(values: object) -> bool:
    return any(leaf.device.type not in ("cpu", "meta") for leaf in _tensors(values))


def _on_host(values: object) -> bool:
    return any(leaf.device.type == "cpu" for leaf in _tensors(values))


def _tensors(values: object) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]
