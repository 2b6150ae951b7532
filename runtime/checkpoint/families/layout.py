"""Rules that give tensors the names, and their rows the order, that layers ask for.

A rule takes all tensors of a checkpoint by their names and returns them by other names, or as parts, or reordered.  A
tensor of a shape that the rule does not expect stays as it is, to be refused by its name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol, TypeAlias

from runtime.checkpoint.stored import SelectedColumns, SelectedRows
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runtime.checkpoint.experts_config import Experts
    from runtime.checkpoint.rope_config import RopeConfig
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
_NOT_TEXT = re.compile(r"(model\.)?(vision_tower|multi_modal_projector)\.")

_ROTATED = re.compile(r"\.self_attn\.[qk]_(?P<kind>proj|norm)\.(?:weight|bias)$")


def text_part(tensors: Mapping[str, StoredTensor], config: Sizes) -> Mapping[str, StoredTensor]:
    """Keep the tensors of the text model alone, under the names that it has by itself."""
    return {_text_name(name): stored for name, stored in tensors.items() if not _NOT_TEXT.match(name)}


def _text_name(name: str) -> str:
    for prefix, own in _TEXT:
        if name.startswith(prefix):
            return own + name.removeprefix(prefix)
    return name


def split_qkv(tensors: Mapping[str, StoredTensor], config: Sizes) -> Mapping[str, StoredTensor]:
    """Split `qkv_proj` into its three parts."""
    query, key_value = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    return _split(tensors, "qkv_proj", {"q_proj": query, "k_proj": key_value, "v_proj": key_value})


def split_gate_up(tensors: Mapping[str, StoredTensor], config: Sizes) -> Mapping[str, StoredTensor]:
    """Split `gate_up_proj` into its two parts."""
    inner = config.intermediate_size
    return _split(tensors, "gate_up_proj", {"gate_proj": inner, "up_proj": inner})


def split_shared_mlp(tensors: Mapping[str, StoredTensor], config: Sizes) -> Mapping[str, StoredTensor]:
    """Name `shared_mlp`, the MLP beside the experts, as DeepSeek's files do, and split its fused matrix (Granite)."""
    inner = next((experts.shared_size for experts in config.experts if experts is not None), 0)
    shared = "mlp.shared_experts"
    split = _split(tensors, "shared_mlp.input_linear", {f"{shared}.gate_proj": inner, f"{shared}.up_proj": inner})
    return {name.replace("shared_mlp.output_linear", f"{shared}.down_proj"): one for name, one in split.items()}


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


def _split(tensors: Mapping[str, StoredTensor], fused: str, parts: Mapping[str, int]) -> Mapping[str, StoredTensor]:
    """Split each module of that name into parts that have so many rows; raises CheckpointError if there are others."""
    found: dict[str, StoredTensor] = {}
    for name, stored in tensors.items():
        before, found_fused, after = name.partition(f".{fused}.")
        if not found_fused:
            found[name] = stored
            continue
        if stored.shape[:1] != (sum(parts.values()),):
            raise CheckpointError(
                f"{stored.file}: {name} is {list(stored.shape)}, config.json makes it {sum(parts.values())} rows"
            )
        start = 0
        for part, rows in parts.items():
            own = slice(start, start + rows)
            found[f"{before}.{part}.{after}"] = SelectedRows(stored, own, (rows, *stored.shape[1:]))
            start += rows
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
