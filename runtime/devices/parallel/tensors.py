"""A rank's share of the tensors of a checkpoint: rows, columns, or all of each, under the names that layers ask for."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from runtime.checkpoint.stored import ALL, GroupCodes, SelectedRows, WithoutCodes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.checkpoint.config import ModelConfig
    from runtime.checkpoint.stored import CodeFormat, Rows, StoredTensor
    from runtime.devices.parallel.share import Share

# Outputs by head, or of an MLP's inner width.
_ROWS = re.compile(
    r"\.self_attn\.(?:(?:[qkv]|q_b|kv_b|gate)_proj\.(?:weight|bias)|sinks)$"
    r"|\.mlp\.(?:.+\.)?(?:gate|up)_proj\.(?:weight|bias)$"
)
# Weights of heads, where not all heads share one.
_HEAD_NORMS = re.compile(r"\.self_attn\.[qk]_norm\.weight$")
# Inputs of the same; what they give is a part of a sum, to which the bias is added once.
_COLUMNS = re.compile(r"\.(?:self_attn\.o_proj|mlp\.(?:.+\.)?down_proj)\.weight$")
_ADDED_ONCE = re.compile(r"\.(?:self_attn\.o_proj|mlp\.(?:.+\.)?down_proj)\.bias$")


@dataclass(frozen=True, slots=True)
class ColumnSlice:
    """Neighbouring columns of a matrix, as a tensor of its own.

    Attributes:
        whole: the tensor in the file.
        columns: which of its columns; it has a start and an end.
    """

    whole: StoredTensor
    columns: slice

    @property
    def file(self) -> str:
        """The file's name."""
        return self.whole.file

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the selection."""
        return (*self.whole.shape[:-1], self.columns.stop - self.columns.start)

    @property
    def form(self) -> str:
        """Format of the whole."""
        return self.whole.form

    @property
    def num_bytes(self) -> int:
        """Share of the whole's bytes."""
        return self.whole.num_bytes * math.prod(self.shape) // math.prod(self.whole.shape)

    @property
    def code_format(self) -> CodeFormat | None:
        """Format of the whole's codes; None where a group would be torn."""
        whole = self.whole.code_format
        return None if whole is None or self.columns.start % whole.group or self.columns.stop % whole.group else whole

    def expand(self, rows: Rows = ALL) -> torch.Tensor:
        """Read the columns of some rows."""
        return self.whole.expand(rows)[..., self.columns]

    def codes(self, rows: Rows = ALL) -> GroupCodes:
        """Read the columns of some rows in their own codes."""
        whole = self.whole.codes(rows)
        groups = slice(self.columns.start // whole.group, self.columns.stop // whole.group)
        return GroupCodes(
            whole.codes[:, self.columns].contiguous(),
            whole.scales[:, groups].contiguous(),
            whole.zeros[:, groups].contiguous(),
            whole.group,
            whole.bits,
        )


@dataclass(frozen=True, slots=True)
class Zeros(WithoutCodes):
    """Zeros in the place of a tensor that another rank adds.

    Attributes:
        whole: the tensor in the file.
    """

    whole: StoredTensor

    @property
    def file(self) -> str:
        """The file's name."""
        return self.whole.file

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""
        return self.whole.shape

    @property
    def form(self) -> str:
        """Format of the tensor."""
        return self.whole.form

    @property
    def num_bytes(self) -> int:
        """Nothing is read."""
        return 0

    def expand(self, rows: Rows = ALL) -> torch.Tensor:
        """Return zeros."""
        return torch.zeros(self.shape)[rows]


def share_tensors(found: Mapping[str, StoredTensor], config: ModelConfig, share: Share) -> dict[str, StoredTensor]:
    """Return a rank's share of each tensor, under the same names.

    Args:
        found: the whole model's, with the shapes that `config` makes them.
        config: the whole model's, which `check_shares` has passed.
        share: the rank's.
    """
    return {name: _share_of(name, tensor, config, share) for name, tensor in found.items()}


def _share_of(name: str, tensor: StoredTensor, config: ModelConfig, share: Share) -> StoredTensor:
    if _ROWS.search(name) or (config.qk_norm in ("by_head", "joint") and _HEAD_NORMS.search(name)):
        rows = share.part(tensor.shape[0])
        return SelectedRows(tensor, rows, (rows.stop - rows.start, *tensor.shape[1:]))
    if _COLUMNS.search(name):
        return ColumnSlice(tensor, share.part(tensor.shape[-1]))
    if _ADDED_ONCE.search(name) and not share.leads:
        return Zeros(tensor)
    return tensor
