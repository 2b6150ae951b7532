"""MXFP4 as gpt-oss's files have it: each matrix of a layer's experts is two tensors of bytes.

`NAME_blocks` are `[experts, outputs, groups, 16]`, with two numbers to a byte, the lower half first; `NAME_scales` are
`[experts, outputs, groups]`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.checkpoint.folder.microscaling import MXFP4
from runtime.checkpoint.folder.packed import PackedMatrix
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.checkpoint.folder.plain import PlainTensor
    from runtime.checkpoint.stored import StoredTensor

_BYTES = "U8"
_BLOCKS, _SCALES = "_blocks", "_scales"
_BLOCK_BYTES = MXFP4.group * MXFP4.bits // 8


class Mxfp4:
    """Quantisation of the matrices of a folder: its experts as above, all else not at all."""

    def assemble(self, found: Mapping[str, PlainTensor]) -> dict[str, StoredTensor]:
        """Put blocks and scales together as `NAME.weight`; all else stays as it is.

        Raises:
            CheckpointError: one is missing, or they do not go together.
        """
        whole: dict[str, StoredTensor] = dict(found)
        for name, blocks in found.items():
            if name.endswith(_BLOCKS):
                module = name.removesuffix(_BLOCKS)
                scales = found.get(f"{module}{_SCALES}")
                if scales is None:
                    raise CheckpointError(f"{blocks.file}: {module}{_SCALES} is missing beside {name}")
                del whole[name], whole[f"{module}{_SCALES}"]
                whole[f"{module}.weight"] = _matrix(module, blocks, scales)
        return whole


def _matrix(module: str, blocks: PlainTensor, scales: PlainTensor) -> PackedMatrix:
    are_bytes = blocks.form == scales.form == _BYTES
    fit = len(scales.shape) == 3 and blocks.shape == (*scales.shape, _BLOCK_BYTES) and math.prod(scales.shape) > 0
    if not (are_bytes and fit):
        raise CheckpointError(
            f"{blocks.file}: {module}{_BLOCKS} is {blocks.form} {list(blocks.shape)} and {module}{_SCALES}"
            f" {scales.form} {list(scales.shape)}, which do not make MXFP4"
        )
    *outputs, groups = scales.shape
    parts = {"weight": replace(blocks, shape=(*outputs, groups * _BLOCK_BYTES)), "scales": scales}
    return PackedMatrix(MXFP4, parts, MXFP4.shape(parts))
