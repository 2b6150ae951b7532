"""The form of an entry in the table of families."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runtime.checkpoint.families.activations import no_gate
from runtime.checkpoint.families.experts import no_experts
from runtime.checkpoint.families.layer_kinds import all_full, all_rotate
from runtime.checkpoint.families.layer_shapes import all_alike, no_layer_inputs, one_stream
from runtime.checkpoint.families.norms import LLAMA, Norms
from runtime.checkpoint.families.scales import llama_scales
from runtime.checkpoint.families.sizes import plain_mlp

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runtime.checkpoint.families.activations import Activation, OutputGate
    from runtime.checkpoint.families.layout import Rule
    from runtime.checkpoint.families.norms import QkNorm
    from runtime.checkpoint.families.scales import Scales
    from runtime.checkpoint.json_fields import Settings
    from runtime.checkpoint.layer_config import Experts, LayerShape, RopeKind
    from runtime.checkpoint.mtp_layout import MtpLayout
    from runtime.checkpoint.recurrent_config import NoMixerConfig, RecurrentConfig


@dataclass(frozen=True, slots=True)
class Family:
    """Differences of one architecture from plain Llama.

    A bias or a norm is always there, never, or as the key of config.json says that is named here.

    Attributes:
        model_type: the name of the family's configuration class in transformers.
        qkv_bias: of the projections to queries, keys and values.
        output_bias: of the attention's output; None for one where those have one.
        output_gate: tells the gate of what attention gives, from the settings.
        mlp_bias: of the MLP's projections.
        norms: which there are, and where.
        qk_norm: how query and key heads are normalised; None where they are not.
        qk_norm_if: whether they are at all.
        qk_norm_rotated: they are normalised after they were rotated, and not before.
        activation_key: the key that names the MLP's activation.
        activation_names: other names of activations in the family's files.
        scales: tells what is scaled, from the settings and the size of a head.
        mlp_size: tells the inner width of the MLP, from the settings.
        layer_types: tells for each layer what it is: attention with or without a window, or one of `recurrent`; from
            settings and number of layers.
        recurrent: the kinds of recurrent layers that stand in the place of attention, or beside it, by their names in
            the key `layer_types`; each is read from the settings.
        reads_layer_types: the key `layer_types`, where it is given, goes before that rule.
        layer_shapes: tells the sizes of each layer, from settings and the layers' types; none where all are alike.
        layer_scalars: each layer multiplies the hidden states that it leaves with a number.
        layer_inputs: tells how many numbers each layer is given of a token besides the hidden states, and of how many
            tokens, from the settings.
        streams: tells how many streams of hidden states there are, and the rank of the product that layers have beside
            attention, from the settings.
        rotary: tells for each layer whether it rotates, from the settings and the layers' types.
        local_theta: the key that has the theta of layers with a window, which rotate by a plain rope of their own;
            None where all layers share one.
        partial_rotary: the keys `partial_rotary_factor` and `rotary_dim` may leave the last numbers of a head alone.
        latent: attention is over a latent, as the keys of DeepSeek's files say (`families.latent`).
        rope_names: other names of rope types in the family's files.
        sinks: whether each query head has a score for attending to nothing.
        experts: tells for each layer which experts take the place of its MLP, from settings and number of layers.
        layout: rules that give the tensors of the family's files their canonical names and order, one after the other.
        aliases: other names of keys in the family's files, which go before these.
        text_config: the key under which the text model's settings are; None where they are those of the whole.
        text_families: the families that this model may be of, by their `model_type`, the first where the file does not
            say; none where it is of this one.
        defaults: those of the family's configuration class in transformers, for keys that the file may leave out.
        passed_over: prefixes of tensors that are not read: modules that cede does not compute.
        assists: it only drafts, for another model whose KV and hidden states it reads (`runtime.nn.assistant`).
        mtp: how its checkpoints name modules for multi-token prediction among the weights; None where they have none.
    """

    model_type: str
    qkv_bias: bool | str = False
    output_bias: bool | str | None = None
    output_gate: Callable[[Settings], OutputGate | None] = no_gate
    mlp_bias: bool | str = False
    norms: Norms = LLAMA
    qk_norm: QkNorm | None = None
    qk_norm_if: bool | str = True
    qk_norm_rotated: bool = False
    activation_key: str = "hidden_act"
    activation_names: Mapping[str, Activation] = field(default_factory=dict)
    scales: Callable[[Settings, int], Scales] = llama_scales
    mlp_size: Callable[[Settings], int] = plain_mlp
    layer_types: Callable[[Settings, int], list[str]] = all_full
    recurrent: Mapping[str, Callable[[Settings], RecurrentConfig | NoMixerConfig]] = field(default_factory=dict)
    reads_layer_types: bool = False
    layer_shapes: Callable[[Settings, list[str]], tuple[LayerShape, ...]] = all_alike
    layer_scalars: bool = False
    layer_inputs: Callable[[Settings], tuple[int, int]] = no_layer_inputs
    streams: Callable[[Settings], tuple[int, int]] = one_stream
    rotary: Callable[[Settings, list[str]], tuple[bool, ...]] = all_rotate
    local_theta: str | None = None
    partial_rotary: bool = False
    latent: bool = False
    rope_names: Mapping[str, RopeKind] = field(default_factory=dict)
    sinks: bool = False
    experts: Callable[[Settings, int], Experts] = no_experts
    layout: tuple[Rule, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    text_config: str | None = None
    text_families: tuple[str, ...] = ()
    defaults: Settings = field(default_factory=dict)
    passed_over: tuple[str, ...] = ()
    assists: bool = False
    mtp: MtpLayout | None = None
