"""Memory that weights will take in their formats, found out without reading any."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from runtime.checkpoint.stored import PLAIN_FORMS
from runtime.nn.matrices.embedding import Int4Embedding, PlainEmbedding, embedding_bytes
from runtime.nn.matrices.formats import choose_formats, quantised_form
from runtime.nn.matrices.int4 import packed_bytes
from runtime.nn.matrices.int8 import INT8
from runtime.nn.matrices.linear import Linear, PlainMatrix, dtype_name, lossless_format
from runtime.nn.source import WeightSource
from runtime.nn.stored_source import NARROW
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
        narrow = self._narrow(self._tensors.get(f"{name}.weight"), vocab, hidden)
        is_plain = self._embedding_form(f"{name}.weight", vocab, hidden) == (narrow or dtype_name(self.dtype))
        if is_plain and (narrow or lossless_format(self._planned, self.dtype) is PlainMatrix):
            return Linear(PlainMatrix(self._empty(vocab, hidden), None))
        return self.linear({name: vocab}, hidden, head=True)

    def _embedding_form(self, name: str, vocab: int, hidden: int) -> str:
        stored = self._tensors.get(name)
        if stored is not None and stored.form not in PLAIN_FORMS:
            if self._chosen.coded is not None and Int4Embedding.takes(stored.code_format, hidden):
                return str(stored.code_format)
            if self._chosen.packed is not None:
                return INT8
        if self._chosen.small_embedding:
            return INT8
        return self._narrow(stored, vocab, hidden) or dtype_name(self.dtype)

    def _form(self, name: str, outputs: int, inputs: int, *, head: bool) -> str:
        stored = self._tensors.get(name)
        if stored is not None and stored.form not in PLAIN_FORMS:
            codes, coded = stored.code_format, self._chosen.coded
            if coded is not None and codes is not None and coded.takes(outputs, inputs, codes):
                return str(codes)
            if self._chosen.packed is not None:
                return INT8
        made = quantised_form(outputs, inputs, self._quantization, self._planned, head=head)
        return made or self._narrow(stored, outputs, inputs) or dtype_name(self.dtype)

    def _narrow(self, stored: StoredTensor | None, outputs: int, inputs: int) -> str:
        """Return the form of 16 bits that a matrix has and keeps; an empty string if there is none."""
        narrow = self._chosen.narrow
        if stored is None or narrow is None or not narrow.takes(outputs, inputs) or stored.form not in NARROW:
            return ""
        return dtype_name(NARROW[stored.form])
