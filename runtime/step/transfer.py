"""Transfers of KV between slots and host memory, which the device thread carries out between steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import torch


KVData: TypeAlias = "torch.Tensor"  # [layers, parts, kv_heads, tokens, dim], in host memory


@dataclass(frozen=True, slots=True)
class Save:
    """Copy positions `start` to `end` of a slot to host memory."""

    slot: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """Copy host memory, as a `Save` of the same length returned it, to the positions from `start` of a slot."""

    slot: int
    start: int
    data: KVData


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy positions `start` to `end` from one slot to the same positions of another."""

    source: int
    slot: int
    start: int
    end: int


Transfer: TypeAlias = Save | Load | Copy
