"""Products of tensors by the kernels, which know addresses only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from runtime.devices.native.kernels import Kernels
    from runtime.devices.native.structures import Matrix

DTYPES = (torch.float32, torch.bfloat16)  # of rows


def native_product(kernels: Kernels, x: Tensor, matrix: Matrix, block: int | None) -> Tensor:
    """Multiply `[rows, in]` to `[rows, out]` in float32, which holds what the dtype of `x` can.

    Args:
        kernels: compute it.
        x: of one of `DTYPES`; no more than `MOST_ROWS`, unless the matrix is of four bits or of bytes.
        matrix: as it is described to the kernels.
        block: outputs of a block of it, which the kernels know; None where it is not in blocks.
    """
    rows, is_bfloat16, own = x.shape[0], x.dtype == torch.bfloat16, x.contiguous()
    y = torch.empty(rows, matrix.out)
    threads = torch.get_num_threads()
    kernels.multiply(
        matrix, own.data_ptr(), y.data_ptr(), rows=rows, is_bfloat16=is_bfloat16, block=block, threads=threads
    )
    return y
