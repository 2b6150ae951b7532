"""Embeddings: the row of each token, looked up in whatever form the matrix is kept.

Few bits are kept for all rows, and only those that are looked up are expanded.  A file's own codes of four bits are
kept; everything else of few bits becomes int8 in groups of `COLUMNS`, which keeps Q8_0 as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from runtime.nn.matrices.arithmetic import quantize_int8
from runtime.nn.matrices.int4 import packed_bytes
from runtime.nn.matrices.linear import dtype_name, total_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runtime.checkpoint.stored import CodeFormat, GroupCodes

COLUMNS = 32  # that share a scale in int8
BITS = 4  # of codes that are kept


class Embedding(Protocol):
    """The rows of all tokens, `[vocab, hidden]`, in some form."""

    @property
    def dtype(self) -> torch.dtype:
        """Type of the rows that are looked up."""

    @property
    def device(self) -> torch.device:
        """Device of the rows."""

    @property
    def form(self) -> str:
        """Format of its numbers: `bfloat16`, `int8`, `int4 by 32`."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""

    def __call__(self, token_ids: Tensor) -> Tensor:
        """Look up `[rows]`, to `[rows, hidden]`."""


class PlainEmbedding:
    """The matrix in full.

    Args:
        weight: `[vocab, hidden]`.
        dtype: of the rows that are looked up; None for the weight's.
    """

    def __init__(self, weight: Tensor, dtype: torch.dtype | None = None) -> None:
        self.weight = weight
        self.dtype, self.device = dtype or weight.dtype, weight.device
        self.form = dtype_name(weight.dtype)
        self.nbytes = weight.nbytes

    def __call__(self, token_ids: Tensor) -> Tensor:
        """Look up `[rows]`, to `[rows, hidden]`."""
        return F.embedding(token_ids, self.weight).to(self.dtype)


class Int8Embedding:
    """8 bits, with a scale for each `COLUMNS` of a row.

    Args:
        parts: the matrix in pieces of some rows, one after the other, in host memory.
        shape: of the whole, `[vocab, hidden]`.
        device: where it is to be.
        dtype: of the rows that are looked up.
    """

    form = "int8"

    def __init__(
        self, parts: Iterable[Tensor], shape: tuple[int, int], device: torch.device, dtype: torch.dtype
    ) -> None:
        vocab, hidden = shape
        columns = int8_columns(hidden)
        self.dtype, self.device = dtype, device
        self._codes = torch.empty(vocab, hidden, dtype=torch.int8, device=device)
        self._scales = torch.empty(vocab, hidden // columns, device=device)
        done = 0
        for part in parts:
            rows = slice(done, done + part.shape[0])
            codes, scales = quantize_int8(part.reshape(-1, columns))
            self._codes[rows] = codes.view(part.shape).to(device)
            self._scales[rows] = scales.view(part.shape[0], -1).to(device)
            done = rows.stop
        self.nbytes = total_bytes(self._codes, self._scales)

    def __call__(self, token_ids: Tensor) -> Tensor:
        """Look up `[rows]`, to `[rows, hidden]`."""
        codes, scales = (whole.index_select(0, token_ids) for whole in (self._codes, self._scales))
        groups = codes.float().view(*scales.shape, -1)
        return groups.mul_(scales[..., None]).view(codes.shape).to(self.dtype)


class Int4Embedding:
    """A file's own codes of four bits, two neighbours in a byte, the first in its low half.

    Args:
        codes: of all rows.
        device: where they are to be.
        dtype: of the rows that are looked up, and of scales and zeros.
    """

    def __init__(self, codes: GroupCodes, device: torch.device, dtype: torch.dtype) -> None:
        self.dtype, self.device = dtype, device
        self._pairs = (codes.codes[:, ::2] | codes.codes[:, 1::2] << 4).to(device)
        self._scales, self._zeros = codes.scales.to(dtype).to(device), codes.zeros.to(dtype).to(device)
        self.form = str(codes.format)
        self.nbytes = total_bytes(self._pairs, self._scales, self._zeros)

    @classmethod
    def takes(cls, codes: CodeFormat | None, hidden: int) -> bool:
        """Return whether codes, if a file has any, are of this kind and in whole groups."""
        return codes is not None and codes.bits == BITS and hidden % codes.group == 0

    def __call__(self, token_ids: Tensor) -> Tensor:
        """Look up `[rows]`, to `[rows, hidden]`."""
        pairs, scales, zeros = (whole.index_select(0, token_ids) for whole in (self._pairs, self._scales, self._zeros))
        codes = torch.stack((pairs & 15, pairs >> 4), dim=-1).float().view(*scales.shape, -1)
        rows = codes.sub_(8).mul_(scales[..., None]).add_(zeros[..., None])
        return rows.view(pairs.shape[0], -1).to(self.dtype)


def embedding_bytes(vocab: int, hidden: int, dtype: torch.dtype, form: str) -> int:
    """Return the bytes of an embedding; `form` is as its own."""
    if form == Int8Embedding.form:
        return vocab * (hidden + hidden // int8_columns(hidden) * torch.float32.itemsize)
    return packed_bytes(vocab, hidden, form, scale_bytes=dtype.itemsize)


def int8_columns(hidden: int) -> int:
    """Return how many columns of a row share a scale: all, where they are no multiple of `COLUMNS`."""
    return COLUMNS if hidden % COLUMNS == 0 else hidden
