"""Rules that give tensors the names, and their rows the order, that layers ask for.

A rule takes all tensors of a checkpoint by their names and returns them by other names, or as parts, or reordered.  A
tensor of a shape that the rule does not expect stays as it is, to be refused by its name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol, TypeAlias

from runtime.checkpoint.recurrent_config import GatedDeltaConfig, Mamba2Config, NoMixerConfig
from runtime.checkpoint.stored import JoinedRows, SelectedColumns, SelectedRows
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from runtime.checkpoint.layer_config import Experts, LayerShape, RopeConfig
    from runtime.checkpoint.recurrent_config import Recurrent
    from runtime.checkpoint.stored import StoredTensor


class Sizes(Protocol):
    """What rules need of a model's config."""

    @property
    def num_heads(self) -> int:
        """Of queries."""

    @property
    def num_kv_heads(self) -> int:
        """Of keys, and as many of values."""

    @property
    def head_dim(self) -> int:
        """Numbers of a head."""

    @property
    def intermediate_size(self) -> int:
        """Width of a plain MLP."""

    @property
    def num_layers(self) -> int:
        """Number of layers."""

    def shape(self, layer: int) -> LayerShape:
        """Return the sizes of one layer."""

    @property
    def recurrent(self) -> Recurrent:
        """What stands in the place of attention, per layer."""

    @property
    def experts(self) -> Experts:
        """Per layer, those in the place of its MLP."""

    @property
    def distinct_ropes(self) -> tuple[RopeConfig, ...]:
        """Rotary position embeddings of its layers, each once."""


Rule: TypeAlias = "Callable[[Mapping[str, StoredTensor], Sizes], Mapping[str, StoredTensor]]"

# Of a model that reads images, too: what its text part is called, in files of transformers 4 and 5, and the rest.
_TEXT = (
    ("language_model.model.", "model."),
    ("language_model.lm_head.", "lm_head."),
    ("model.language_model.", "model."),
)
_NOT_TEXT = re.compile(
    r"(model\.)?(vision_tower|audio_tower|multi_modal_projector|embed_vision|embed_audio|vision_embedder|visual)\."
)

# Parts of a module for multi-token prediction, and what they are called below a layer of DeepSeek-V3's.  What is not
# read keeps its name there, and is refused by it, such as an embedding of the module's own.
QWEN_MODULE = {
    "fc": ".eh_proj",
    "pre_fc_norm_embedding": ".enorm",
    "pre_fc_norm_hidden": ".hnorm",
    "norm": ".shared_head.norm",
    "layers.0": "",
    "embed_tokens": ".mtp.embed_tokens",
}
# Of Nemotron 3: a layer that attends, and one of experts, which are the parts of one.  Sources: `nemotron_h_mtp.py` of
# vLLM and of SGLang, which take the state behind the target's final norm, and chain the module's output behind its own.
NEMOTRON_MODULE = {
    "layers.0": "",
    "layers.1.norm": ".mlp.norm",
    "layers.1.mixer": ".mlp",
    "layers.1.final_layernorm": ".shared_head.norm",
    "layers.1": ".mtp.layers.1",
    "embed_tokens": ".mtp.embed_tokens",
}

_BESIDE = re.compile(r"^(model\.layers\.\d+\.)((?:router|experts)\.)")
_KEYS_VALUES = re.compile(r"model\.layers\.(?P<layer>\d+)\.self_attn\.[kv]_(?:proj|norm)\.")
_MIXER = re.compile(r"^(model\.layers\.)(\d+)\.(mixer|self_attn|norm)\.")
_MIXERS: Mapping[type[object], str] = {NoMixerConfig: "mlp", Mamba2Config: "mamba", GatedDeltaConfig: "linear_attn"}
_ROTATED = re.compile(r"\.self_attn\.[qk]_(?P<kind>proj|norm)\.(?:weight|bias)$")


def text_part(tensors: Mapping[str, StoredTensor], config: Sizes) -> Mapping[str, StoredTensor]:
    """Keep the tensors of the text model alone, under the names that it has by itself."""
    return {_text_name(name): stored for name, stored in tensors.items() if not _NOT_TEXT.match(name)}


def _text_name(name: str) -> str:
    for prefix, own in _TEXT:
        if name.startswith(prefix):
            return own + name.removeprefix(prefix)
    return name


def renamed(names: Mapping[str, str]) -> Rule:
    """Return a rule that gives parts of names, between dots, the names that layers ask for."""

    def rename(tensors: Mapping[str, StoredTensor], config: Sizes) -> Mapping[str, StoredTensor]:
        return {_with_parts(name, names): stored for name, stored in tensors.items()}

    return rename


def _with_parts(name: str, names: Mapping[str, str]) -> str:
    """Replace parts of a dotted name.

    >>> _with_parts("model.layers.0.feed_forward.w1.weight", {"feed_forward.w1": "mlp.gate_proj"})
    'model.layers.0.mlp.gate_proj.weight'
    """
    for part, canonical in names.items():
        name = f".{name}.".replace(f".{part}.", f".{canonical}.")[1:-1]
    return name


def experts_under_mlp(tensors: Mapping[str, StoredTensor], config: Sizes) -> Mapping[str, StoredTensor]:
    """Name the router and the experts beside an MLP as parts of it."""
    return {_BESIDE.sub(r"\1mlp.\2", name): stored for name, stored in tensors.items()}


def without_shared_kv(tensors: Mapping[str, StoredTensor], config: Sizes) -> Mapping[str, StoredTensor]:
    """Leave out what published files have for keys and values of layers that read those of another layer."""
    return {name: stored for name, stored in tensors.items() if not _is_shared_kv(name, config)}


def _is_shared_kv(name: str, config: Sizes) -> bool:
    found = _KEYS_VALUES.match(name)
    layer = -1 if found is None else int(found["layer"])
    return 0 <= layer < config.num_layers and config.shape(layer).kv_layer is not None


def split_qkv(tensors: Mapping[str, StoredTensor], config: Sizes) -> Mapping[str, StoredTensor]:
    """Split `qkv_proj` into its three parts."""
    query, key_value = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    return _split(tensors, "qkv_proj", [("q_proj", query), ("k_proj", key_value), ("v_proj", key_value)])


def split_gate_up(tensors: Mapping[str, StoredTensor], config: Sizes) -> Mapping[str, StoredTensor]:
    """Split `gate_up_proj` into its two parts."""
    inner = config.intermediate_size
    return _split(tensors, "gate_up_proj", [("gate_proj", inner), ("up_proj", inner)])


def split_query_gate(tensors: Mapping[str, StoredTensor], config: Sizes) -> Mapping[str, StoredTensor]:
    """Split `q_proj`, where each head's gate follows on its query."""
    return _split(tensors, "q_proj", [("q_proj", config.head_dim), ("gate_proj", config.head_dim)], config.num_heads)


def split_delta(tensors: Mapping[str, StoredTensor], config: Sizes) -> Mapping[str, StoredTensor]:
    """Split the fused projections of the gated delta rule, which have all parts of a head of keys together."""
    for delta in {layer for layer in config.recurrent if isinstance(layer, GatedDeltaConfig)}:
        keys, heads = delta.key_dim, delta.heads // delta.key_heads
        values = heads * delta.value_dim
        qkvz = [("in_proj_qkv", keys), ("in_proj_qkv", keys), ("in_proj_qkv", values), ("in_proj_z", values)]
        tensors = _split(tensors, "in_proj_qkvz", qkvz, delta.key_heads)
        tensors = _split(tensors, "in_proj_ba", [("in_proj_b", heads), ("in_proj_a", heads)], delta.key_heads)
    return tensors


def module_behind_layers(parts: Mapping[str, str]) -> Rule:
    """Return a rule that names a module for multi-token prediction as DeepSeek-V3's files do: a layer behind the last.

    Args:
        parts: of names, and what they are called below that layer.
    """

    def rename(tensors: Mapping[str, StoredTensor], config: Sizes) -> Mapping[str, StoredTensor]:
        layer = f"model.layers.{config.num_layers}"
        return renamed({f"mtp.{part}": f"{layer}{own}" for part, own in parts.items()})(tensors, config)

    return rename


def join_convolutions(tensors: Mapping[str, StoredTensor], config: Sizes) -> Mapping[str, StoredTensor]:
    """Join the convolutions of queries, keys and values, which the layer computes as one."""
    found: dict[str, StoredTensor] = {}
    for name, stored in tensors.items():
        parts = [tensors.get(name.replace(".q_conv1d.", f".{part}_conv1d.")) for part in "qkv"]
        present = tuple(part for part in parts if part is not None and part.shape[1:] == stored.shape[1:])
        if ".q_conv1d." in name and len(present) == len(parts):
            found[name.replace(".q_conv1d.", ".conv1d.")] = JoinedRows(present)
        elif not (".k_conv1d." in name or ".v_conv1d." in name):
            found[name] = stored
    return found


def mixers_by_kind(tensors: Mapping[str, StoredTensor], config: Sizes) -> Mapping[str, StoredTensor]:
    """Name `mixer` and `norm` by what they are in each layer (Nemotron-H), and `self_attn`, too (Kimi)."""

    def own(found: re.Match[str]) -> str:
        layer = int(found[2])
        kind = config.recurrent[layer] if layer < config.num_layers else None
        name = _MIXERS.get(type(kind), "self_attn")
        if found[3] == "norm":
            name = "mlp.norm" if name == "mlp" else "norm"
        return f"{found[1]}{layer}.{name}."

    return {_MIXER.sub(own, name): stored for name, stored in tensors.items()}


def split_shared_mlp(tensors: Mapping[str, StoredTensor], config: Sizes) -> Mapping[str, StoredTensor]:
    """Split `shared_mlp`, and call it what it is: the MLP, or what all rows go through beside experts (Granite)."""
    module, inner = "mlp", config.intermediate_size
    for experts in filter(None, config.experts):
        module, inner = "mlp.shared_experts", experts.shared_size
    parts = [(f"{module}.gate_proj", inner), (f"{module}.up_proj", inner)]
    tensors = _split(tensors, "shared_mlp.input_linear", parts)
    return renamed({"shared_mlp.output_linear": f"{module}.down_proj"})(tensors, config)


def ernie_router(tensors: Mapping[str, StoredTensor], config: Sizes) -> Mapping[str, StoredTensor]:
    """Name the correction of a router, a matrix of one row, as DeepSeek's files do.

    The module for multi-token prediction is left out: its form is not known.
    """
    found: dict[str, StoredTensor] = {}
    for name, stored in tensors.items():
        if not name.startswith("model.mtp_"):
            fits = ".moe_statics." in name and stored.shape[:1] == (1,)
            own = SelectedRows(stored, slice(0, 1), stored.shape[1:]) if fits else stored
            found[re.sub(r"\.mlp\.(?:gate\.)?moe_statics\.", ".mlp.gate.", name)] = own
    return found


def _split(
    tensors: Mapping[str, StoredTensor], fused: str, parts: Sequence[tuple[str, int]], groups: int = 1
) -> Mapping[str, StoredTensor]:
    """Split each module of that name into parts.

    Args:
        tensors: all of the files.
        fused: the module's name.
        parts: what follows one another in each group, with its rows; what has the same name is joined.
        groups: of rows.

    Raises:
        CheckpointError: the module has another number of rows.
    """
    each = sum(rows for _, rows in parts)
    found: dict[str, StoredTensor] = {}
    for name, stored in tensors.items():
        before, found_fused, after = name.partition(f".{fused}.")
        if not found_fused:
            found[name] = stored
            continue
        if stored.shape[:1] != (groups * each,):
            raise CheckpointError(
                f"{stored.file}: {name} is {list(stored.shape)}, config.json makes it {groups * each} rows"
            )
        chosen: dict[str, list[int]] = {}
        start = 0
        for part, rows in parts:
            firsts = range(start, groups * each, each)
            chosen.setdefault(part, []).extend(row for first in firsts for row in range(first, first + rows))
            start += rows
        for part, own in chosen.items():
            together = slice(own[0], own[-1] + 1) if groups == 1 else own
            found[f"{before}.{part}.{after}"] = SelectedRows(stored, together, (len(own), *stored.shape[1:]))
    return found


def deinterleave(tensors: Mapping[str, StoredTensor], config: Sizes) -> Mapping[str, StoredTensor]:
    """Put rotated pairs that lie as (0, 1), (2, 3), … as (i, i + rotary_dim / 2), so that one rotation serves all.

    Rows of queries and of keys are reordered alike, and their norms with them, which changes no product of the two.
    """
    if not config.distinct_ropes:
        return tensors
    rotary_dim = config.distinct_ropes[0].rotary_dim
    order = [*range(0, rotary_dim, 2), *range(1, rotary_dim, 2), *range(rotary_dim, config.head_dim)]
    return {name: _reordered(name, stored, order) for name, stored in tensors.items()}


def _reordered(name: str, stored: StoredTensor, order: list[int]) -> StoredTensor:
    """Reorder the rows of each head; of a norm `[heads, head_dim]`, the columns."""
    found = _ROTATED.search(name)
    if found is None:
        return stored
    if found["kind"] == "norm" and stored.shape[1:] == (len(order),):
        return SelectedColumns(stored, order)
    rows = stored.shape[0] if stored.shape else 0
    if rows % len(order):
        return stored
    return SelectedRows(stored, [head + row for head in range(0, rows, len(order)) for row in order], stored.shape)
