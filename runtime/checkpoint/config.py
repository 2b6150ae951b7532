"""A checkpoint's config.json as one frozen structure.

A config that cede would not compute exactly is refused with an error that names the key.  Keys are read in the form of
transformers 4 (`rope_theta`, `rope_scaling`, `torch_dtype`) and of 5 (`rope_parameters`, `dtype`); an absent key means
what it means there.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod
from typing import TYPE_CHECKING

from runtime.checkpoint.families.activations import read_activation
from runtime.checkpoint.families.latent import parse_latent, rotated_dim
from runtime.checkpoint.families.layer_kinds import layer_types, windows
from runtime.checkpoint.families.layer_shapes import read_shape
from runtime.checkpoint.families.rotary import read_ropes, stretched_context
from runtime.checkpoint.families.table import DEFAULTS, FAMILIES
from runtime.checkpoint.json_fields import MAX_INTEGER, Settings, boolean, integer, invalid, number, section
from runtime.checkpoint.layer_config import LayerShape
from runtime.checkpoint.recurrent_config import BesideAttentionConfig
from runtime.checkpoint.unreadable import not_among
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from runtime.checkpoint.families.activations import Activation, OutputGate
    from runtime.checkpoint.families.family import Family
    from runtime.checkpoint.families.norms import Norms, QkNorm
    from runtime.checkpoint.families.scales import Scales
    from runtime.checkpoint.layer_config import Experts, LatentConfig, RopeConfig
    from runtime.checkpoint.recurrent_config import Recurrent, StatePart

MAX_LAYERS = 1000  # what a file says of each layer takes memory before any weight is looked at


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The shape of a decoder and the switches of its family.

    Attributes:
        architecture: a key of `FAMILIES`.
        vocab_size: rows of the embedding and logits of a row; the tokenizer may have fewer tokens.
        hidden_size: numbers of a hidden state.
        intermediate_size: the MLP's inner width.
        num_layers: decoder layers.
        num_heads: query heads.
        num_kv_heads: key and value heads; divides `num_heads`.
        head_dim: numbers of a head; even.
        context_length: tokens that a sequence may have.
        norms: which there are, and where in a layer.
        norm_eps: is added to the mean square in a norm.
        activation: of the MLP's gate.
        scales: of the embedding, of scores, of what is added to the hidden states, of logits.
        ropes: per layer, its rotary position embeddings; None where queries and keys are not rotated (SmolLM3).
        window: per layer, how many positions each one sees, itself included; None means all before it.
        recurrent: per layer, what stands in the place of attention, or beside it, and stores a state; None where
            attention is alone.
        experts: per layer, the experts that take the place of its MLP; None where it has one.
        qk_norm: how query and key heads are normalised; None where they are not.
        qk_norm_rotated: whether that is done after they were rotated, and not before.
        qkv_bias: whether these projections have a bias; likewise `output_bias` and `mlp_bias`.
        output_bias: that of the attention's output.
        output_gate: by which what each query head attends to is multiplied; None for none.
        mlp_bias: that of the MLP's three projections.
        sinks: whether each query head has a score for attending to nothing.
        tied_embeddings: whether the head is the embedding.
        eos_token_ids: tokens that end an output.
        bos_token_id: the token that begins a text, if there is one.
        dtype: the checkpoint's, by torch's name; None where the file does not say.
        latent: of latent attention; None where keys and values are stored themselves.
        layer_shapes: sizes of each layer, in the place of `num_heads`, `num_kv_heads`, `head_dim` and
            `intermediate_size`; none where all are alike.
        layer_scalars: whether each layer multiplies the hidden states that it leaves with a number.
        layer_input_size: numbers that each layer is given of a token besides the hidden states; 0 for none.
        layer_input_vocab: rows of the embedding that these come from.
        streams: of hidden states, of which a layer computes one; 1 where there are no others.
        laurel_rank: of the product that layers have beside attention; 0 for none.
        ranks: how many of these shares make up the model; 1 where this is the whole.
    """

    architecture: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    context_length: int
    norms: Norms
    norm_eps: float
    activation: Activation
    scales: Scales
    ropes: tuple[RopeConfig | None, ...]
    window: tuple[int | None, ...]
    recurrent: Recurrent
    experts: Experts
    qk_norm: QkNorm | None
    qkv_bias: bool
    output_bias: bool
    output_gate: OutputGate | None
    mlp_bias: bool
    sinks: bool
    tied_embeddings: bool
    eos_token_ids: tuple[int, ...]
    bos_token_id: int | None
    dtype: str | None
    latent: LatentConfig | None = None
    qk_norm_rotated: bool = False
    layer_shapes: tuple[LayerShape, ...] = ()
    layer_scalars: bool = False
    layer_input_size: int = 0
    layer_input_vocab: int = 0
    streams: int = 1
    laurel_rank: int = 0
    ranks: int = 1

    def shape(self, layer: int) -> LayerShape:
        """Return the sizes of one layer."""
        if self.layer_shapes:
            return self.layer_shapes[layer]
        return LayerShape(self.num_heads, self.num_kv_heads, self.head_dim, self.intermediate_size)

    def group(self, layer: int) -> int:
        """Return how many query heads of a layer share a KV head."""
        shape = self.shape(layer)
        return shape.num_heads // shape.num_kv_heads

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of a row between layers."""
        return (self.hidden_size,) if self.streams == 1 else (self.streams, self.hidden_size)

    @property
    def distinct_ropes(self) -> tuple[RopeConfig, ...]:
        """The rotary position embeddings that any layer has, each once."""
        return tuple(dict.fromkeys(rope for rope in self.ropes if rope is not None))

    def rope_factors(self, context: int) -> str | None:
        """Return which of LongRoPE's sets of factors slots of `context` tokens are rotated by; None without LongRoPE.

        Keys that were rotated by one set are of no use to slots of the other.
        """
        for rope in self.distinct_ropes:
            if rope.kind == "longrope":
                return "long" if rope.uses_long_factors(context) else "short"
        return None

    @property
    def states(self) -> tuple[tuple[StatePart, ...] | None, ...]:
        """Per layer, the parts of the state that it stores for a sequence; None where it attends, and no more."""
        return tuple(None if layer is None else layer.state for layer in self.recurrent)

    @property
    def is_hybrid(self) -> bool:
        """Return whether any layer is recurrent."""
        return any(self.states)

    @property
    def ring_windows(self) -> tuple[int | None, ...]:
        """Per layer, the window for which a ring would do; none beside recurrent layers."""
        return (None,) * self.num_layers if self.is_hybrid else self.window

    def layer_kv_shape(self, layer: int) -> tuple[int, int, int]:
        """Return the shape of what a layer reads of a token: `(parts, heads, numbers of a head)`.

        The parts are keys and values, or the one row of latent attention, which all heads share.
        """
        if self.latent is not None:
            return (1, 1, self.latent.stored_dim)
        shape = self.shape(layer)
        return (2, shape.num_kv_heads, shape.head_dim)

    @property
    def kv_shape(self) -> tuple[int, int, int]:
        """Shape of a piece of a token's KV: a layer's where these are alike, else the largest that fits into all."""
        shapes = [self.layer_kv_shape(layer) for layer in range(len(self.layer_shapes) or 1)]
        dim = gcd(*(dim for *_, dim in shapes))
        return (shapes[0][0], gcd(*(heads * (own // dim) for _, heads, own in shapes)), dim)

    @property
    def kv_layers(self) -> tuple[int, ...]:
        """The layers that store keys and values of their own."""
        return tuple(layer for layer, pieces in enumerate(self.kv_pieces) if pieces)

    @property
    def kv_pieces(self) -> tuple[int, ...]:
        """For each layer, how many pieces of `kv_shape` it stores for a token.

        None where it does not attend, or reads another's KV.
        """
        piece = prod(self.kv_shape)
        return tuple(
            prod(self.layer_kv_shape(layer)) // piece
            if isinstance(recurrent, BesideAttentionConfig | None) and self.shape(layer).kv_layer is None
            else 0
            for layer, recurrent in enumerate(self.recurrent)
        )


def check_context(config: ModelConfig, context: int | None) -> None:
    """Raise CheckpointError where `context`, tokens per slot or None, is longer than the model's own."""
    if context is not None and context > config.context_length:
        raise CheckpointError(f"--context {context} exceeds the model's own, {config.context_length}")


def parse_config(config: Settings, generation: Settings | None = None) -> ModelConfig:
    """Return the model that `config` describes; `generation`, of generation_config.json, adds its end tokens.

    Raises:
        CheckpointError: it asks for what cede does not compute.
    """
    architecture = _architecture(config)
    family, settings = _text_model(FAMILIES[architecture], config)
    hidden_size, num_heads = integer(settings, "hidden_size"), integer(settings, "num_attention_heads")
    num_layers = _num_layers(settings)
    context_length = integer(settings, "max_position_embeddings")
    types = layer_types(family, settings, num_layers)
    settings = {**settings, "num_hidden_layers": num_layers, "layer_types": types}
    dim = {"head_dim": rotated_dim(settings)} if family.latent else {}
    shape = read_shape({**settings, **dim, "intermediate_size": family.mlp_size(settings)})
    shapes = family.layer_shapes(settings, types)
    dims = dict.fromkeys(types, shape.head_dim) | dict(zip(types, (own.head_dim for own in shapes), strict=False))
    ropes = read_ropes(family, settings, types, dims, context_length)
    latent = parse_latent(settings, ropes) if family.latent else None
    (input_size, input_vocab), (streams, laurel_rank) = family.layer_inputs(settings), family.streams(settings)
    head_dim = shape.head_dim if latent is None else latent.query_dim
    if max([num_heads, *(own.num_heads for own in shapes)]) * (widest := max(head_dim, *dims.values())) > MAX_INTEGER:
        raise invalid("num_attention_heads", num_heads, f"makes heads of {widest} too wide for any model")
    return ModelConfig(
        architecture=architecture,
        vocab_size=integer(settings, "vocab_size"),
        hidden_size=hidden_size,
        intermediate_size=shape.intermediate_size,
        num_layers=num_layers,
        num_heads=num_heads,
        num_kv_heads=shape.num_kv_heads,
        head_dim=head_dim,
        context_length=max([context_length, *(stretched_context(rope) for rope in ropes if rope is not None)]),
        norms=family.norms,
        norm_eps=number(settings, family.norms.eps_key),
        activation=read_activation(family, settings),
        scales=family.scales(settings, head_dim),
        ropes=ropes,
        window=windows(settings, types),
        recurrent=tuple(family.recurrent[kind](settings) if kind in family.recurrent else None for kind in types),
        experts=family.experts(settings, num_layers),
        qk_norm=family.qk_norm if boolean(settings, family.qk_norm_if) else None,
        qkv_bias=boolean(settings, family.qkv_bias),
        output_bias=boolean(settings, family.qkv_bias if family.output_bias is None else family.output_bias),
        output_gate=family.output_gate(settings),
        mlp_bias=boolean(settings, family.mlp_bias),
        sinks=family.sinks,
        tied_embeddings=boolean(settings, "tie_word_embeddings"),
        eos_token_ids=_eos_token_ids(settings, generation or {}),
        bos_token_id=_token_id(settings, "bos_token_id"),
        dtype=_dtype(settings),
        latent=latent,
        qk_norm_rotated=family.qk_norm_rotated,
        layer_shapes=shapes,
        layer_scalars=family.layer_scalars,
        layer_input_size=input_size,
        layer_input_vocab=input_vocab,
        streams=streams,
        laurel_rank=laurel_rank,
    )


def _architecture(config: Settings) -> str:
    """Return the one architecture named, or that of `model_type`; the two must agree."""
    named, model_type = config.get("architectures"), config.get("model_type")
    if not named:
        named = [name for name, family in FAMILIES.items() if family.model_type == model_type]
        if not named:
            raise invalid("model_type", model_type, "is unknown and no 'architectures' is given")
    if not isinstance(named, list) or len(named) != 1 or str(named[0]) not in FAMILIES:
        name = str(named[0]) if isinstance(named, list) else str(named)
        raise invalid("architectures", named, not_among(name, FAMILIES))
    architecture = str(named[0])
    if model_type is not None and model_type != FAMILIES[architecture].model_type:
        raise invalid("model_type", model_type, f"does not go with the architecture {architecture}")
    return architecture


def _text_model(whole: Family, config: Settings) -> tuple[Family, Settings]:
    """Return the family of the text model, and its settings by the names and with the defaults that it has."""
    text = _text_config(whole, config)
    family = _text_family(whole, text)
    settings = {**DEFAULTS, **family.defaults, **config, **text}
    settings |= {key: settings[other] for other, key in family.aliases.items() if settings.get(other) is not None}
    _refuse_unsupported(settings)
    return family, settings


def _text_config(family: Family, config: Settings) -> Settings:
    """Return the settings of the text model, where it has a place of its own in the file."""
    return {} if family.text_config is None else section(config, family.text_config)


def _text_family(family: Family, text: Settings) -> Family:
    """Return the family of the text model, which may be one of several."""
    if not family.text_families:
        return family
    named = text.get("model_type", family.text_families[0])
    if named not in family.text_families:
        raise invalid(
            f"{family.text_config}.model_type", named, f"is not supported; these are: {', '.join(family.text_families)}"
        )
    return next(each for each in FAMILIES.values() if each.model_type == named)


def _refuse_unsupported(settings: Settings) -> None:
    if settings.get("is_causal") is False:  # embedding models are published under these architectures too
        raise invalid("is_causal", False, "is not supported: attention here is causal")
    bidirectional = settings.get("use_bidirectional_attention")
    if bidirectional and bidirectional != "vision":  # this is of the tokens of an image, which there are none of here
        raise invalid("use_bidirectional_attention", bidirectional, "is not supported: attention here is causal")


# --- parts --------------------------------------------------------------------------------------------------------


def _num_layers(settings: Settings) -> int:
    listed = settings.get("layer_types")
    if settings.get("num_hidden_layers") is None and isinstance(listed, list | str):  # of Nemotron-H
        settings = {"num_hidden_layers": len(listed)}
    num_layers = integer(settings, "num_hidden_layers")
    if num_layers > MAX_LAYERS:
        raise invalid("num_hidden_layers", num_layers, f"is more than {MAX_LAYERS}, which no model has")
    return num_layers


def _eos_token_ids(settings: Settings, generation: Settings) -> tuple[int, ...]:
    """Return the end tokens of both files, once each: chat models add theirs in generation_config.json only."""
    found: dict[int, None] = {}
    for source in (settings, generation):
        ids = source.get("eos_token_id")
        for token in ids if isinstance(ids, list) else [ids]:
            if token is not None:
                found[integer({"eos_token_id": token}, "eos_token_id", minimum=0)] = None
    return tuple(found)


def _token_id(settings: Settings, key: str) -> int | None:
    return None if settings[key] is None else integer(settings, key, minimum=0)


def _dtype(settings: Settings) -> str | None:
    given = settings.get("dtype") or settings.get("torch_dtype")
    name = None if given is None else str(given).removeprefix("torch.")
    if name not in (None, "float32", "float16", "bfloat16"):
        raise invalid("dtype", name, "is not supported")
    return name
