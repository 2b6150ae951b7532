"""Experts under their canonical names, whatever names and shapes the files have them in.

Canonical is a matrix for each projection of each expert, `mlp.experts.N.gate_proj.weight`, and the router as
`mlp.gate`.  Published files rename them (Mixtral), or stack all experts of a layer in one tensor (MLX, Granite,
gpt-oss).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.checkpoint.layer_config import MAX_EXPERTS
from runtime.checkpoint.stored import ALL, OfAnother, SelectedRows, WithoutCodes
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import torch

    from runtime.checkpoint.stored import Rows, StoredTensor

    # Names below the MLP's, with the tensor of each.
    Named = Iterator[tuple[str, StoredTensor]]
    Split = Callable[[StoredTensor], Named]

_LAYER = re.compile(r"(model\.layers\.\d+\.)(?:block_sparse_moe|mlp)\.(.+)")

_PROJECTIONS = ("gate_proj", "up_proj", "down_proj")
_ROUTERS = {
    "router.weight": "gate.weight",
    "router.bias": "gate.bias",
    "router.layer.weight": "gate.weight",  # Granite
    "router.proj.weight": "gate.weight",  # Gemma 4, as the next
    "router.scale": "gate.scale",
    "router.per_expert_scale": "gate.per_expert_scale",
    "expert_bias": "gate.e_score_correction_bias",  # LFM2
    "gate.wg.weight": "gate.weight",  # Hunyuan
    "e_score_correction_bias": "gate.e_score_correction_bias",  # MiniMax
    "experts.e_score_correction_bias": "gate.e_score_correction_bias",  # Laguna
}
_SHARED = re.compile(r"^shared_(?:expert|mlp)\.")  # Qwen and Hunyuan
_MIXTRAL = re.compile(r"experts\.(\d+)\.w([123])\.weight")
_MIXTRAL_PARTS = {"1": "gate_proj", "2": "down_proj", "3": "up_proj"}


def canonical_experts(found: Mapping[str, StoredTensor], architecture: str) -> dict[str, StoredTensor]:
    """Give each expert's projections the names and shapes that layers ask for.

    Args:
        found: all tensors of the files, by their names there; those that are no experts' stay as they are.
        architecture: of the model.

    Raises:
        CheckpointError: two tensors are the same part of the same expert.
    """
    stacks = _GPT_OSS_STACKS if architecture == "GptOssForCausalLM" else _STACKS
    named: dict[str, StoredTensor] = {}
    for name, tensor in found.items():
        for canonical, part in _parts(name, tensor, stacks):
            if canonical in named:
                raise CheckpointError(f"{tensor.file}: {name} is {canonical}, which {named[canonical].file} holds too")
            named[canonical] = part
    return named


def _parts(name: str, tensor: StoredTensor, stacks: Mapping[str, Split]) -> Named:
    layer = _LAYER.fullmatch(name)
    if layer is None:
        yield name, tensor
        return
    prefix, below = layer.groups()
    split = stacks.get(below)
    if mixtral := _MIXTRAL.fullmatch(below):
        expert, part = mixtral.groups()
        yield f"{prefix}mlp.experts.{expert}.{_MIXTRAL_PARTS[part]}.weight", tensor
    elif split is not None and _is_stack(tensor):
        for canonical, part in split(tensor):
            yield f"{prefix}mlp.experts.{canonical}", part
    else:
        yield f"{prefix}mlp.{_ROUTERS.get(below, _SHARED.sub('shared_experts.', below))}", tensor


def _is_stack(tensor: StoredTensor) -> bool:
    """Return whether its first dimension can be a layer's experts; what cannot be is refused by its name later."""
    return len(tensor.shape) > 1 and 0 < tensor.shape[0] <= MAX_EXPERTS and min(tensor.shape) > 0


# --- stacks of all experts: matrices [experts, outputs, inputs], and biases [experts, outputs] ----------------------


def _whole(part: str) -> Split:
    """Return what splits a stack of one projection."""

    def split(stack: StoredTensor) -> Named:
        rows = stack.shape[1] if len(stack.shape) > 2 else 1
        for expert in range(stack.shape[0]):
            own = slice(expert * rows, (expert + 1) * rows)
            yield f"{expert}.{part}", SelectedRows(stack, own, stack.shape[1:])

    return split


def _halves(stack: StoredTensor) -> Named:
    """Split a stack of matrices whose first rows are the gate's, and whose others are up's."""
    inner = stack.shape[1] // 2
    for expert in range(stack.shape[0]):
        for half, projection in enumerate(("gate_proj", "up_proj")):
            first = (2 * expert + half) * inner
            rows = slice(first, first + inner)
            yield f"{expert}.{projection}.weight", SelectedRows(stack, rows, (inner, *stack.shape[2:]))


def _alternating(stack: StoredTensor) -> Named:
    """Split a stack of matrices of which every other row is the gate's."""
    rows = stack.shape[1]
    for expert in range(stack.shape[0]):
        for first, projection in enumerate(("gate_proj", "up_proj")):
            own = range(expert * rows + first, (expert + 1) * rows, 2)
            yield f"{expert}.{projection}.weight", SelectedRows(stack, own, (len(own), *stack.shape[2:]))


# --- gpt-oss: matrices [experts, inputs, outputs] --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TransposedPart(OfAnother, WithoutCodes):
    """Columns of one expert's matrix, which lies inputs before outputs, as outputs before inputs.

    Attributes:
        whole: `[experts, inputs, outputs]`, or biases, `[experts, outputs]`.
        expert: which matrix.
        outputs: which columns of it.
    """

    whole: StoredTensor
    expert: int
    outputs: range

    @property
    def shape(self) -> tuple[int, ...]:
        """Outputs before inputs; a bias has outputs alone."""
        return (len(self.outputs), *self.whole.shape[1:-1])

    @property
    def num_bytes(self) -> int:
        """Share of the stack's bytes."""
        experts, *_, outputs = self.whole.shape
        return self.whole.num_bytes // experts * len(self.outputs) // outputs

    def expand(self, rows: Rows = ALL) -> torch.Tensor:
        """Read the expert's matrix, and take rows of its transpose."""
        inputs = self.whole.shape[1] if len(self.whole.shape) > 2 else 1
        matrix = self.whole.expand(slice(self.expert * inputs, (self.expert + 1) * inputs))  # [inputs, outputs]
        columns = matrix.T[self.outputs.start :: self.outputs.step]
        return columns.reshape(self.shape)[rows]


def _transposed(parts: Mapping[str, int]) -> Split:
    """Return what splits a stack by every so many columns, from the first, the second, … on."""

    def split(stack: StoredTensor) -> Named:
        for expert in range(stack.shape[0]):
            for part, first in parts.items():
                outputs = range(first, stack.shape[-1], len(parts))
                yield f"{expert}.{part}", TransposedPart(stack, expert, outputs)

    return split


_STACKS: dict[str, Split] = {
    **{
        f"{module}.{projection}.{kind}": _whole(f"{projection}.{kind}")
        for module in ("switch_mlp", "experts")  # MLX
        for projection in _PROJECTIONS
        for kind in ("weight", "bias")
    },
    "experts.gate_up_proj": _halves,  # as transformers has them in memory
    "experts.down_proj": _whole("down_proj.weight"),
    "input_linear.weight": _halves,  # Granite
    "output_linear.weight": _whole("down_proj.weight"),
}

_GPT_OSS_STACKS: dict[str, Split] = {
    **_STACKS,
    "experts.gate_up_proj": _transposed({"gate_proj.weight": 0, "up_proj.weight": 1}),
    "experts.gate_up_proj_bias": _transposed({"gate_proj.bias": 0, "up_proj.bias": 1}),
    "experts.gate_up_proj.weight": _alternating,  # MXFP4, as `mxfp4` puts it together
    "experts.down_proj": _transposed({"down_proj.weight": 0}),
    "experts.down_proj_bias": _whole("down_proj.bias"),
}
