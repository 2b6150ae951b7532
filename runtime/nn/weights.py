"""The weights of a whole decoder: read from a checkpoint, or drawn at random."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from runtime.checkpoint.families.table import FAMILIES
from runtime.checkpoint.latent_rows import order_rotated_rows
from runtime.checkpoint.mtp_layout import DEEPSEEK, published_modules
from runtime.devices.parallel.share import WHOLE, share_config
from runtime.errors import CheckpointError
from runtime.nn.layers.decoder_layer import DecoderLayer
from runtime.nn.layers.gemma.layer_inputs import LayerInputs
from runtime.nn.layers.norm import read_norm
from runtime.nn.matrices.embedding import PlainEmbedding
from runtime.nn.matrices.linear import Linear
from runtime.nn.source import RandomSource, ShapeSource
from runtime.nn.stored_source import StoredSource, check_shapes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import torch

    from runtime.checkpoint.config import ModelConfig
    from runtime.checkpoint.open import Checkpoint
    from runtime.devices.parallel.share import Share
    from runtime.nn.layers.gemma.altup import SplitStreams
    from runtime.nn.layers.norm import Norm
    from runtime.nn.matrices.embedding import Embedding
    from runtime.nn.matrices.linear import WeightFormats
    from runtime.nn.source import WeightSource

_EMBEDDING, _FINAL_NORM, _LM_HEAD = "model.embed_tokens", "model.norm", "lm_head"


@dataclass(frozen=True, slots=True)
class Weights:
    """A whole decoder; where the checkpoint ties them, the plain `lm_head` shares the tensor of `embedding`.

    Attributes:
        embedding: `[vocab, hidden]`.
        layers: from the first to the last.
        final_norm: of the last layer's states.
        lm_head: hidden to vocab.
        layer_inputs: of the model whose layers are given something of each token; else None.
        streams: of the model that makes several of what goes into the first layer; else None.
        nbytes_by_form: bytes of memory by the form of the weights: `bfloat16`, `int8`, `int4 by 32`.
    """

    embedding: Embedding
    layers: tuple[DecoderLayer, ...]
    final_norm: Norm
    lm_head: Linear
    layer_inputs: LayerInputs | None = None
    streams: SplitStreams | None = None
    nbytes_by_form: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def nbytes(self) -> int:
        """Bytes of memory of all parts, a shared matrix counted once."""
        embedding = self.embedding
        shared = isinstance(embedding, PlainEmbedding) and self.lm_head.shares(embedding.weight)
        head = 0 if shared else self.lm_head.nbytes
        inputs = sum(part.nbytes for part in (self.layer_inputs, self.streams) if part is not None)
        layers = sum(layer.nbytes for layer in self.layers)
        return self.embedding.nbytes + inputs + layers + self.final_norm.nbytes + head


def load_weights(
    checkpoint: Checkpoint,
    *,
    device: torch.device | str,
    dtype: torch.dtype,
    formats: WeightFormats | None = None,
    progress: Callable[[int, int], None] | None = None,
    share: Share = WHOLE,
) -> Weights:
    """Read the weights of a checkpoint as `dtype` onto `device`.

    All names and shapes are checked before anything is allocated.  Modules for multi-token prediction are passed over;
    see `runtime.loading.drafters`.

    Args:
        checkpoint: the model's files.
        device: where the weights are to be.
        dtype: of plain weights, and of what is computed with packed ones.
        formats: what the matrices are packed to; None leaves them plain.
        progress: called with bytes done and in all, of the files, after each tensor.
        share: what is read of them, where several ranks compute the model.

    Raises:
        CheckpointError: a file or tensor is missing, misshapen, unexpected or unreadable.
    """
    config = checkpoint.config
    tensors = checkpoint.tensors()
    family = FAMILIES[config.architecture]
    modules = tuple(layout.modules for layout in (DEEPSEEK, family.mtp) if layout) + family.passed_over
    modules += published_modules(tensors, config.num_layers)
    found = {name: stored for name, stored in tensors.items() if not name.startswith(modules)}
    if config.latent is not None:
        found = order_rotated_rows(found, config.latent)
    expected = weight_shapes(config).shapes
    redundant_head = config.tied_embeddings and f"{_LM_HEAD}.weight" in found
    if redundant_head:  # many published files repeat the embedding as a tied head
        expected = expected | {f"{_LM_HEAD}.weight": expected[f"{_EMBEDDING}.weight"]}
    check_shapes(found, expected)
    if share != WHOLE:
        from runtime.devices.parallel.tensors import share_tensors  # which no whole model needs

        found, config = share_tensors(found, config, share), share_config(config, share.of)
        check_shapes(found, {name: found[name].shape for name in expected} | weight_shapes(config).shapes)
    source = StoredSource(found, device, dtype, formats, progress)
    if redundant_head and share.leads and not source.repeats(f"{_LM_HEAD}.weight", f"{_EMBEDDING}.weight"):
        # transformers 4 ties them all the same and 5 keeps both, so either choice would be wrong for someone.
        raise CheckpointError(f"{_LM_HEAD}.weight: differs from {_EMBEDDING}.weight, which config.json ties it to")
    return build_weights(source, config, head=share.leads)


def build_weights(source: WeightSource, config: ModelConfig, *, head: bool = True) -> Weights:
    """Take the weights of a decoder from `source`, one part after the other; without a `head`, that has no matrix."""
    hidden, vocab = config.hidden_size, config.vocab_size
    embedding = source.embedding(_EMBEDDING, vocab, hidden)
    inputs = LayerInputs(source.under("model"), config) if config.layer_input_size else None
    layers = tuple(
        DecoderLayer(source.under(f"model.layers.{index}"), config, index) for index in range(config.num_layers)
    )
    final_norm, streams = read_norm(source, _FINAL_NORM, config), None
    if config.streams > 1:
        from runtime.nn.layers.gemma.altup import JoinedStreams, SplitStreams  # which no other family needs

        final_norm = JoinedStreams(source.under("model"), config, final_norm)
        streams = SplitStreams(source.under("model"), config)
    if not head:
        lm_head = Linear()
    elif config.tied_embeddings:
        lm_head = source.tied_head(_EMBEDDING, embedding, vocab, hidden)
    else:
        lm_head = source.linear({_LM_HEAD: vocab}, hidden, head=True)
    return Weights(embedding, layers, final_norm, lm_head, inputs, streams, MappingProxyType(source.nbytes_by_form))


def random_weights(
    config: ModelConfig,
    *,
    device: torch.device | str,
    dtype: torch.dtype,
    seed: int,
    formats: WeightFormats | None = None,
) -> Weights:
    """Draw weights as `RandomSource` does, for benchmarks of real shapes; `formats` is as for `load_weights`."""
    return build_weights(RandomSource(device, dtype, seed, formats), config)


def weight_shapes(config: ModelConfig) -> ShapeSource:
    """Return the shapes of all weights; nothing is allocated."""
    source = ShapeSource()
    build_weights(source, config)
    return source


def weight_bytes(config: ModelConfig, dtype: torch.dtype) -> int:
    """Return the bytes of such a model's plain weights."""
    return build_weights(ShapeSource(dtype), config).nbytes
