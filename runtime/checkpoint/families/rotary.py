"""The rotary position embeddings that a config.json describes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

from runtime.checkpoint.families.layer_kinds import FULL, attends
from runtime.checkpoint.json_fields import boolean, integer, invalid, number, numbers
from runtime.checkpoint.layer_config import RopeConfig, RopeKind, longrope_attention_factor, yarn_attention_factor

if TYPE_CHECKING:
    from runtime.checkpoint.families.family import Family
    from runtime.checkpoint.json_fields import Settings

_ORIGINAL = "original_max_position_embeddings"
# The numbers that each kind requires; YaRN's and LongRoPE's have rules of their own.
_REQUIRED: dict[RopeKind, tuple[str, ...]] = {
    "linear": ("factor",),
    "ntk_alpha": ("alpha",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
}


def read_ropes(
    family: Family, settings: Settings, types: list[str], head_dims: Mapping[str, int], context_length: int
) -> tuple[RopeConfig | None, ...]:
    """Return the rope of each layer, whose heads have `head_dims` by type; None where a layer does not rotate.

    Raises:
        CheckpointError: the file asks for what cede does not compute.
    """
    rotary = family.rotary(settings, types)
    ropes = {
        kind: _read(family, settings, _parameters(family, settings, kind), head_dims[kind], context_length)
        for kind in dict.fromkeys(kind for kind, rotates in zip(types, rotary, strict=True) if rotates)
        if attends(family, kind)
    }
    return tuple(ropes.get(kind) if rotates else None for kind, rotates in zip(types, rotary, strict=True))


def stretched_context(rope: RopeConfig) -> int:
    """Return the context that YaRN stretches to, which its files do not state; 0 for other kinds."""
    return int(rope.original_context * rope.factor) if rope.kind == "yarn" else 0


def _parameters(family: Family, settings: Settings, layer_type: str) -> Settings:
    """Return the parameters of one type of layer; `rope_scaling` goes before `rope_parameters`, as in transformers.

    Where layers with a window have a rope of their own, transformers 5 writes a set for each type.  Before, all keys
    were about the other layers, but for the one that is named by `local_theta`.
    """
    given = settings.get("rope_scaling") or settings.get("rope_parameters") or {}
    if not isinstance(given, Mapping):
        raise invalid("rope_parameters", given, "is not an object")
    by_type = any(isinstance(value, Mapping) for value in given.values())
    if family.local_theta is None:
        if by_type:
            raise invalid("rope_parameters", given, "is not supported: one set of parameters for all layers is")
        return given
    if by_type:
        given = given.get(layer_type) or {}
        if not isinstance(given, Mapping):
            raise invalid("rope_parameters", given, f"is not an object for {layer_type}")
        given = {"partial_rotary_factor": 1.0, **given}  # keys beside these sets are about none of them
    elif layer_type != FULL:
        given = {}
    theta = "rope_theta" if layer_type == FULL else family.local_theta
    return given if given.get("rope_theta") is not None else {**given, "rope_theta": settings[theta]}


def _kind(family: Family, given: Settings) -> RopeKind:
    named = given.get("rope_type", given.get("type", "default"))
    kinds: dict[str, RopeKind] = {kind: kind for kind in get_args(RopeKind)} | dict(family.rope_names)
    if not isinstance(named, str) or named not in kinds:
        raise invalid("rope_type", named, f"is not supported; these are: {', '.join(kinds)}")
    return kinds[named]


def _read(family: Family, settings: Settings, given: Settings, head_dim: int, context_length: int) -> RopeConfig:
    kind = _kind(family, given)
    rotary_dim = head_dim if kind == "proportional" else _rotary_dim(family, settings, given, head_dim)
    scaling: dict[str, Any] = {key: number(given, key) for key in _REQUIRED.get(kind, ())}
    if kind in ("llama3", "yarn", "longrope"):
        scaling["original_context"] = _original_context(settings, given, context_length)
        stretch = context_length / scaling["original_context"]
    if kind == "yarn":
        scaling |= _yarn(given, stretch)
    if kind == "longrope":
        scaling |= _longrope(given, stretch, scaling["original_context"], rotary_dim // 2)
    if kind == "proportional":
        scaling |= {"factor": _optional(given, "factor", 1.0), "rotated_pairs": _rotated_pairs(given, head_dim)}
    theta = number(given if given.get("rope_theta") is not None else settings, "rope_theta")
    return RopeConfig(kind=kind, rotary_dim=rotary_dim, theta=theta, **scaling)


def _rotary_dim(family: Family, settings: Settings, given: Settings, head_dim: int) -> int:
    """Return how many numbers of a head are rotated."""
    key = "partial_rotary_factor"
    source = given if given.get(key) is not None else settings
    if family.partial_rotary and source.get(key) is None and settings.get("rotary_dim") is not None:  # MiniMax M2
        source = {key: integer(settings, "rotary_dim") / head_dim}
    whole = 1 if not family.latent else head_dim / (head_dim + integer(settings, "qk_nope_head_dim"))
    if source.get(key) in (None, 1, whole):
        return head_dim
    if not family.partial_rotary:
        raise invalid(key, source[key], "is not supported")
    rotary_dim = int(head_dim * number(source, key))
    if not 0 < rotary_dim <= head_dim or rotary_dim % 2:
        raise invalid(key, source[key], f"makes {rotary_dim} of the {head_dim} numbers of a head rotate")
    return rotary_dim


def _rotated_pairs(given: Settings, head_dim: int) -> int:
    """Return how many pairs of a head turn, as transformers' `_compute_proportional_rope_parameters` does."""
    key = "partial_rotary_factor"
    pairs = int((_optional(given, key, 1.0) or 1.0) * head_dim // 2)
    if not 0 < pairs <= head_dim // 2:
        raise invalid(key, given[key], f"makes {pairs} of the {head_dim // 2} pairs of a head rotate")
    return pairs


def _original_context(settings: Settings, given: Settings, context_length: int) -> int:
    """Read the length before stretching, among the rope's parameters or beside them, as Phi's files have it.

    Two that differ are refused, for transformers uses one here and the other there.
    """
    lengths = {integer(source, _ORIGINAL) for source in (given, settings) if source.get(_ORIGINAL) is not None}
    if len(lengths) > 1:
        raise invalid(_ORIGINAL, settings[_ORIGINAL], f"differs from the {given[_ORIGINAL]} of the rope's parameters")
    return lengths.pop() if lengths else context_length


def _optional(given: Settings, key: str, default: float | None) -> float | None:
    return number(given, key) if given.get(key) is not None else default


def _yarn(given: Settings, stretch: float) -> dict[str, Any]:
    """Read YaRN's parameters, as transformers' `_compute_yarn_parameters` does.

    `stretch` takes the place of a null `factor`; the other keys are optional.
    """
    factor = stretch if given.get("factor", 0) is None else number(given, "factor")
    attention_factor = _optional(given, "attention_factor", None)
    if attention_factor is None:
        mscales = _optional(given, "mscale", None), _optional(given, "mscale_all_dim", None)
        attention_factor = yarn_attention_factor(factor, *mscales)
    return {
        "factor": factor,
        "beta_fast": _optional(given, "beta_fast", 32.0),
        "beta_slow": _optional(given, "beta_slow", 1.0),
        "truncate": boolean({"truncate": True, **given}, "truncate"),
        "attention_factor": attention_factor,
    }


def _longrope(given: Settings, stretch: float, original_context: int, pairs: int) -> dict[str, Any]:
    """Read LongRoPE's parameters, as transformers' `_compute_longrope_parameters` does."""
    factor = _optional(given, "factor", stretch)
    attention_factor = _optional(given, "attention_factor", None)
    if attention_factor is None:
        attention_factor = longrope_attention_factor(factor or stretch, original_context)
    factors = {key: numbers(given, key, pairs) for key in ("short_factor", "long_factor")}
    return {"factor": factor, "attention_factor": attention_factor, **factors}
