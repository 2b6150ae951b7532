"""Memory that weights will take in their formats, found out without reading any."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from runtime.nn.matrices.embedding import PlainEmbedding, embedding_bytes
from runtime.nn.matrices.formats import Kept, choose_formats, choose_kept, quantised_form
from runtime.nn.matrices.int4 import packed_bytes
from runtime.nn.matrices.int8 import INT8
from runtime.nn.matrices.linear import Linear, PlainMatrix, dtype_name, lossless_format
from runtime.nn.source import WeightSource
from runtime.nn.weights import build_weights

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping

    import torch
    from torch import Tensor

    from runtime.checkpoint.config import ModelConfig
    from runtime.checkpoint.stored import StoredTensor
    from runtime.devices.native.kernels import Kernels
    from runtime.nn.matrices.embedding import Embedding
    from runtime.nn.matrices.quantization import Quantization


def planned_bytes(
    config: ModelConfig,
    quantization: Quantization,
    device: torch.device,
    dtype: torch.dtype,
    tensors: Mapping[str, StoredTensor] | None = None,
    kernels: Kernels | None = None,
) -> Counter[str]:
    """Estimate a model's weights in bytes, by form, which `Weights.nbytes_by_form` tells once they are loaded.

    Args:
        config: the model's.
        quantization: what was asked for.
        device: where the weights are to be.
        dtype: that the model computes in.
        tensors: of the checkpoint, which say what its files have in few bits; None where all is in full.
        kernels: that will help on a CPU, which decides what some matrices are kept in; None for none.
    """
    source = _PlannedSource(tensors or {}, quantization, device, dtype, kernels)
    build_weights(source, config)
    return source.nbytes_by_form


class _PlannedSource(WeightSource):
    """Gives weights that have no memory, and notes what they would take."""

    def __init__(
        self,
        tensors: Mapping[str, StoredTensor],
        quantization: Quantization,
        device: torch.device,
        dtype: torch.dtype,
        kernels: Kernels | None,
    ) -> None:
        super().__init__("meta", dtype)
        self._tensors = tensors
        self._quantization = quantization
        self._planned = device
        self._chosen = choose_formats(quantization, device, dtype, kernels)

    def tensor(self, name: str, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        return self._noted_tensor(self._empty(*shape, dtype=dtype))

    def embedding(self, name: str, vocab: int, hidden: int) -> Embedding:
        form = self._embedding_form(f"{name}.weight", vocab, hidden)
        self.nbytes_by_form[form] += embedding_bytes(vocab, hidden, self.dtype, form)
        return PlainEmbedding(self._empty(vocab, hidden))

    def linear(self, parts: Mapping[str, int], inputs: int, *, bias: bool = False, head: bool = False) -> Linear:
        outputs = sum(parts.values())
        for form, names in groupby(parts, lambda name: self._form(f"{name}.weight", parts[name], inputs, head=head)):
            rows = sum(parts[name] for name in names)
            size = packed_bytes(rows, inputs, form)
            self.nbytes_by_form[form] += size + (rows * self.dtype.itemsize if bias else 0)
        return Linear(PlainMatrix(self._empty(outputs, inputs), self._empty(outputs) if bias else None))

    def tied_head(self, name: str, embedding: Embedding, vocab: int, hidden: int) -> Linear:
        narrow = self._kept(f"{name}.weight", vocab, hidden, is_embedding=True).narrow
        is_plain = self._embedding_form(f"{name}.weight", vocab, hidden) == dtype_name(narrow or self.dtype)
        if is_plain and (narrow or lossless_format(self._planned, self.dtype) is PlainMatrix):
            return Linear(PlainMatrix(self._empty(vocab, hidden), None))
        return self.linear({name: vocab}, hidden, head=True)

    def _embedding_form(self, name: str, vocab: int, hidden: int) -> str:
        kept = self._kept(name, vocab, hidden, is_embedding=True)
        if kept.codes is not None:
            return str(kept.codes)
        if self._chosen.small_embedding or (kept.is_packed and self._chosen.packed is not None):
            return INT8
        return dtype_name(kept.narrow or self.dtype)

    def _form(self, name: str, outputs: int, inputs: int, *, head: bool) -> str:
        kept = self._kept(name, outputs, inputs)
        if kept.codes is not None:
            return str(kept.codes)
        if kept.is_packed and self._chosen.packed is not None:
            return INT8
        made = quantised_form(outputs, inputs, self._quantization, self._planned, head=head)
        return made or dtype_name(kept.narrow or self.dtype)

    def _kept(self, name: str, outputs: int, inputs: int, *, is_embedding: bool = False) -> Kept:
        stored = self._tensors.get(name)
        if stored is None:
            return Kept()
        return choose_kept(stored, self._chosen, outputs, inputs, is_embedding=is_embedding)
