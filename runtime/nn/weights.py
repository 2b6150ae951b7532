"""The weights of a decoder: allocated in the shapes that it computes with, filled in place, and packed.

Query, key and value projections are rows of one matrix, and so are gate and up: one product instead of three, or two.
`_by_name` maps each tensor's name in the checkpoint to the rows where it belongs, so that loading, checking and random
filling are loops over one table.  Once a layer is filled, its matrices may be packed (`runtime.nn.linear`), before
memory is allocated for the next one.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from runtime.checkpoint.families import FAMILIES
from runtime.checkpoint.shards import check_shapes, read_shards
from runtime.checkpoint.tensor_reader import TensorReader
from runtime.errors import CheckpointError
from runtime.nn.linear import Linear

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from runtime.checkpoint.config import ModelConfig
    from runtime.nn.linear import MatrixFormat, WeightFormats

_EMBEDDING, _FINAL_NORM, _LM_HEAD = "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One decoder layer."""

    input_norm: Tensor  # [hidden]
    qkv: Linear  # hidden to (heads + 2 * kv_heads) * head_dim
    q_norm: Tensor | None  # [head_dim]
    k_norm: Tensor | None  # [head_dim]
    output: Linear  # heads * head_dim to hidden
    post_norm: Tensor  # [hidden]
    gate_up: Linear  # hidden to 2 * intermediate
    down: Linear  # intermediate to hidden

    @property
    def nbytes(self) -> int:
        """Bytes of memory of all parts."""
        return sum(part.nbytes for field in fields(self) if (part := getattr(self, field.name)) is not None)

    def pack(self, matrix_format: MatrixFormat) -> None:
        """Convert the matrices to that format."""
        for linear in (self.qkv, self.output, self.gate_up, self.down):
            linear.pack(matrix_format)


@dataclass(frozen=True, slots=True)
class Weights:
    """A whole decoder; where the checkpoint ties them, the plain `lm_head` shares the tensor of `embedding`."""

    embedding: Tensor  # [vocab, hidden]
    layers: tuple[LayerWeights, ...]
    final_norm: Tensor  # [hidden]
    lm_head: Linear  # hidden to vocab

    @property
    def nbytes(self) -> int:
        """Bytes of memory of all parts, a shared matrix counted once."""
        head = 0 if self.lm_head.shares(self.embedding) else self.lm_head.nbytes
        return self.embedding.nbytes + self.final_norm.nbytes + head + sum(layer.nbytes for layer in self.layers)

    def pack(self, formats: WeightFormats) -> None:
        """Convert the matrices to other formats; a tied embedding stays as it is, beside the packed head."""
        for layer in self.layers:
            layer.pack(formats.layers)
        self.lm_head.pack(formats.head)


def load_weights(
    folder: Path,
    config: ModelConfig,
    *,
    device: torch.device | str,
    dtype: torch.dtype,
    formats: WeightFormats | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Weights:
    """Read `model.safetensors`, or the shards of `model.safetensors.index.json`, as `dtype` onto `device`.

    Names, shapes and dtypes are all checked before anything is allocated.  One layer is read at a time and packed
    before the next has any memory: the peak is the packed model and its largest part, plain.  Modules for multi-token
    prediction are passed over; see `runtime.loading.drafters`.

    Args:
        folder: in Hugging Face layout.
        config: what the folder's config.json says.
        device: where the weights are to be.
        dtype: of plain weights, and of what is computed with packed ones.
        formats: what the matrices are packed to; None leaves them plain.
        progress: called with bytes done and in all, of the files, after each tensor.

    Raises:
        CheckpointError: a file or tensor is missing, misshapen, unexpected or unreadable.
    """
    shards = read_shards(folder)
    mtp = FAMILIES[config.architecture].mtp
    found = {
        name: entry
        for shard in shards
        for name, entry in shard.tensors.items()
        if mtp is None or not name.startswith(mtp.modules)
    }
    redundant_head = config.tied_embeddings and _LM_HEAD in found
    check_shapes(found, _expected_shapes(config, redundant_head=redundant_head))

    reader = TensorReader(shards, found, progress)
    embedding = torch.empty((config.vocab_size, config.hidden_size), device=device, dtype=dtype)
    reader.fill({_EMBEDDING: embedding})
    if redundant_head:
        _check_redundant_head(reader, embedding)
    layers = tuple(_load_layer(reader, config, index, embedding, formats) for index in range(config.num_layers))
    final_norm = embedding.new_empty(config.hidden_size)
    reader.fill({_FINAL_NORM: final_norm})
    lm_head = Linear(embedding if config.tied_embeddings else torch.empty_like(embedding))
    if not config.tied_embeddings:
        reader.fill({_LM_HEAD: lm_head.weight})
    if formats is not None:
        lm_head.pack(formats.head)
    return Weights(embedding, layers, final_norm, lm_head)


def _load_layer(
    reader: TensorReader, config: ModelConfig, index: int, like: Tensor, formats: WeightFormats | None
) -> LayerWeights:
    """Read one layer, on the device and in the dtype of `like`, and pack it."""
    layer = allocate_layer(config, like.device, like.dtype)
    reader.fill({f"model.layers.{index}.{name}": place for name, place in layer_by_name(layer, config)})
    if formats is not None:
        layer.pack(formats.layers)
    return layer


def _check_redundant_head(reader: TensorReader, embedding: Tensor) -> None:
    head = torch.empty_like(embedding)
    reader.fill({_LM_HEAD: head})
    if not torch.equal(head, embedding):
        # transformers 4 ties them all the same and 5 keeps both, so either choice would be wrong for someone.
        raise CheckpointError(f"{_LM_HEAD}: differs from {_EMBEDDING}, which config.json says it is tied to")


def weight_bytes(config: ModelConfig, dtype: torch.dtype) -> int:
    """Return the bytes of such a model's plain weights."""
    return allocate_weights(config, "meta", dtype).nbytes


def _expected_shapes(config: ModelConfig, *, redundant_head: bool) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor in the checkpoint; many published files repeat the embedding as a tied head."""
    shapes = {name: tuple(t.shape) for name, t in _by_name(allocate_weights(config, "meta", torch.float32), config)}
    return shapes | {_LM_HEAD: shapes[_EMBEDDING]} if redundant_head else shapes


def random_weights(config: ModelConfig, *, device: torch.device | str, dtype: torch.dtype, seed: int) -> Weights:
    """Draw normal weights of standard deviation 0.02, with norms of one, for benchmarks of real shapes.

    They are the same on every run with the same `seed`, device type and dtype.
    """
    weights = allocate_weights(config, device, dtype)
    generator = torch.Generator(device=weights.embedding.device).manual_seed(seed)
    for name, place in _by_name(weights, config):
        if name.endswith("norm.weight"):
            place.fill_(1.0)
        else:
            place.normal_(0.0, 0.02, generator=generator)
    return weights


# --- allocation and the table -------------------------------------------------------------------------------------


def allocate_layer(config: ModelConfig, device: torch.device | str, dtype: torch.dtype) -> LayerWeights:
    """Allocate one layer's tensors, not filled."""

    def empty(*shape: int) -> Tensor:
        return torch.empty(shape, device=device, dtype=dtype)

    def linear(rows: int, columns: int, *, bias: bool) -> Linear:
        return Linear(empty(rows, columns), empty(rows) if bias else None)

    hidden, intermediate = config.hidden_size, config.intermediate_size
    attended = config.num_heads * config.head_dim
    qkv = attended + 2 * config.num_kv_heads * config.head_dim
    return LayerWeights(
        input_norm=empty(hidden),
        qkv=linear(qkv, hidden, bias=config.qkv_bias),
        q_norm=empty(config.head_dim) if config.qk_norm else None,
        k_norm=empty(config.head_dim) if config.qk_norm else None,
        output=linear(hidden, attended, bias=config.output_bias),
        post_norm=empty(hidden),
        gate_up=linear(2 * intermediate, hidden, bias=config.mlp_bias),
        down=linear(hidden, intermediate, bias=config.mlp_bias),
    )


def allocate_weights(config: ModelConfig, device: torch.device | str, dtype: torch.dtype) -> Weights:
    """Allocate a decoder's tensors, not filled."""
    embedding = torch.empty((config.vocab_size, config.hidden_size), device=device, dtype=dtype)
    return Weights(
        embedding=embedding,
        layers=tuple(allocate_layer(config, device, dtype) for _ in range(config.num_layers)),
        final_norm=torch.empty(config.hidden_size, device=device, dtype=dtype),
        lm_head=Linear(embedding if config.tied_embeddings else torch.empty_like(embedding)),
    )


def _by_name(weights: Weights, config: ModelConfig) -> Iterator[tuple[str, Tensor]]:
    """Yield each tensor's name in the checkpoint, with the (contiguous) part of `weights` that holds it."""
    yield _EMBEDDING, weights.embedding
    for index, layer in enumerate(weights.layers):
        for name, place in layer_by_name(layer, config):
            yield f"model.layers.{index}.{name}", place
    yield _FINAL_NORM, weights.final_norm
    if not config.tied_embeddings:
        yield _LM_HEAD, weights.lm_head.weight


def layer_by_name(layer: LayerWeights, config: ModelConfig) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of one layer as `_by_name` does, by names without the layer's own prefix."""
    for name, place in _layer_parts(layer, config):
        if place is not None:
            yield name, place


def _layer_parts(layer: LayerWeights, config: ModelConfig) -> Iterator[tuple[str, Tensor | None]]:
    query, key_value = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    qkv = {"q_proj": query, "k_proj": key_value, "v_proj": key_value}
    gate_up = {"gate_proj": config.intermediate_size, "up_proj": config.intermediate_size}
    yield "input_layernorm.weight", layer.input_norm
    yield from _rows("self_attn", "weight", layer.qkv.weight, qkv)
    yield from _rows("self_attn", "bias", layer.qkv.bias, qkv)
    yield "self_attn.q_norm.weight", layer.q_norm
    yield "self_attn.k_norm.weight", layer.k_norm
    yield "self_attn.o_proj.weight", layer.output.weight
    yield "self_attn.o_proj.bias", layer.output.bias
    yield "post_attention_layernorm.weight", layer.post_norm
    yield from _rows("mlp", "weight", layer.gate_up.weight, gate_up)
    yield from _rows("mlp", "bias", layer.gate_up.bias, gate_up)
    yield "mlp.down_proj.weight", layer.down.weight
    yield "mlp.down_proj.bias", layer.down.bias


def _rows(module: str, kind: str, fused: Tensor | None, parts: dict[str, int]) -> Iterator[tuple[str, Tensor]]:
    """Yield the rows of `fused` that each of `parts` (name to number of rows, in order) takes."""
    if fused is not None:
        for name, rows in zip(parts, torch.split(fused, list(parts.values())), strict=True):
            yield f"{module}.{name}.{kind}", rows
