"""Rules that tell what each layer is: recurrent, or with or without a window, rotated or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.checkpoint.json_fields import boolean, integer, invalid, section

if TYPE_CHECKING:
    from runtime.checkpoint.families.family import Family
    from runtime.checkpoint.json_fields import Settings

FULL, SLIDING = "full_attention", "sliding_attention"  # transformers' names
CONV, LINEAR = "conv", "linear_attention"  # likewise, of recurrent layers
BESIDE = "hybrid"  # likewise, of those beside attention
MLP, EXPERTS = "mlp", "moe"  # likewise, of layers that mix no rows
_OLD_NAMES = {"attention": FULL, "mamba": LINEAR}  # in files of transformers 4
_LETTERS = {"*": FULL, "M": LINEAR, "-": MLP, "E": EXPERTS}  # in those of Nemotron-H


def layer_types(family: Family, settings: Settings, num_layers: int) -> list[str]:
    """Return `FULL`, `SLIDING`, or the name of a kind of recurrent layer for each layer.

    Raises:
        CheckpointError: the file asks for anything else.
    """
    types = _types(family, settings, num_layers)
    if not any(attends(family, kind) for kind in types):
        raise invalid("layer_types", types, "is not supported: no layer is attention")
    return types


def attends(family: Family, kind: str) -> bool:
    """Return whether layers of a kind attend: all but those with something in the place of attention."""
    return kind == BESIDE or kind not in family.recurrent


def _types(family: Family, settings: Settings, num_layers: int) -> list[str]:
    """Return the types that the file gives, if the family reads them, or those of the family's rule."""
    given = settings.get("layer_types")
    if isinstance(given, str):
        given = [_LETTERS.get(letter, letter) for letter in given]
    if isinstance(given, list) and family.recurrent:
        given = [_OLD_NAMES.get(kind, kind) if isinstance(kind, str) else kind for kind in given]
    if given is None or not family.reads_layer_types:
        by_rule = family.layer_types(settings, num_layers)
        if given not in (None, by_rule):
            raise invalid("layer_types", given, f"is not what {family.model_type} computes")
        return by_rule
    kinds = (FULL, *family.recurrent) if family.recurrent else (FULL, SLIDING)
    known = isinstance(given, list) and all(kind in kinds for kind in given)
    if not known or len(given) != num_layers:
        raise invalid("layer_types", given, f"is not one of {' and '.join(kinds)} for each of {num_layers} layers")
    return [str(kind) for kind in given]


def windows(settings: Settings, types: list[str]) -> tuple[int | None, ...]:
    """Return how many positions each layer sees; None means all before its own."""
    if SLIDING not in types:
        return (None,) * len(types)
    if not uses_sliding_window(settings):
        raise invalid("layer_types", types, "asks for a sliding window, which the other keys switch off")
    window = integer(settings, "sliding_window")
    return tuple(window if kind == SLIDING else None for kind in types)


def uses_sliding_window(settings: Settings) -> bool:
    """Return whether any layer has a window."""
    return boolean(settings, "use_sliding_window") and settings["sliding_window"] is not None


# --- which layers have a window -----------------------------------------------------------------------------------


def all_full(settings: Settings, num_layers: int) -> list[str]:
    """Let all layers see everything, as Llama does."""
    return [FULL] * num_layers


def all_sliding(settings: Settings, num_layers: int) -> list[str]:
    """Let all layers have the window, as Mistral does."""
    return [SLIDING if uses_sliding_window(settings) else FULL] * num_layers


def sliding_above(settings: Settings, num_layers: int) -> list[str]:
    """Slide in the layers from `max_window_layers` on, as Qwen does."""
    if not uses_sliding_window(settings):
        return [FULL] * num_layers
    first = integer(settings, "max_window_layers", minimum=0)
    return [SLIDING if layer >= first else FULL for layer in range(num_layers)]


def sliding_without_rope(settings: Settings, num_layers: int) -> list[str]:
    """Slide in the layers that do not rotate, as SmolLM3 does."""
    slides = uses_sliding_window(settings)
    rotates = _no_rope_layers(settings, num_layers)
    return [SLIDING if slides and not rotates[layer] else FULL for layer in range(num_layers)]


def sliding_first(settings: Settings, num_layers: int) -> list[str]:
    """Slide in every other layer, beginning with the first, as gpt-oss does."""
    if not uses_sliding_window(settings):
        return [FULL] * num_layers
    return [FULL if layer % 2 else SLIDING for layer in range(num_layers)]


def full_at_intervals(settings: Settings, num_layers: int) -> list[str]:
    """Slide in all layers but each `sliding_window_pattern`-th, as Gemma does."""
    if not uses_sliding_window(settings):
        return [FULL] * num_layers
    interval = integer(settings, "sliding_window_pattern")
    return [SLIDING if (layer + 1) % interval else FULL for layer in range(num_layers)]


def attention_by_number(settings: Settings, num_layers: int) -> list[str]:
    """Attend in the layers that `full_attn_idxs` numbers, in all where it is absent, as LFM2 does."""
    numbers = settings["full_attn_idxs"]
    if numbers is None:
        return [FULL] * num_layers
    if not isinstance(numbers, list) or any(not isinstance(number, int) for number in numbers):
        raise invalid("full_attn_idxs", numbers, "is not a list of layers")
    return [FULL if layer in numbers else CONV for layer in range(num_layers)]


def linear_at_intervals(settings: Settings, num_layers: int) -> list[str]:
    """Attend in each `full_attention_interval`-th layer, and linearly in the others, as Qwen3-Next does."""
    interval = integer(settings, "full_attention_interval")
    return [LINEAR if (layer + 1) % interval else FULL for layer in range(num_layers)]


def all_linear(settings: Settings, num_layers: int) -> list[str]:
    """Let no layer attend, as Granite does where its files do not say otherwise."""
    return [LINEAR] * num_layers


def all_beside(settings: Settings, num_layers: int) -> list[str]:
    """Let all layers attend, with something recurrent beside, as Falcon-H1 does."""
    return [BESIDE] * num_layers


def kimi_layers(settings: Settings, num_layers: int) -> list[str]:
    """Read the two lists of `linear_attn_config`, which count from 1, as Kimi Linear does; else attend in each fourth.

    Raises:
        CheckpointError: they do not name each layer once.
    """
    given = section(settings, "linear_attn_config")
    lists = [given.get(key) for key in ("full_attn_layers", "kda_layers")]
    if lists == [None, None]:
        return [FULL if layer and layer % 4 == 0 else LINEAR for layer in range(num_layers)]
    full, linear = (found if isinstance(found, list) else [] for found in lists)
    if sorted(full + linear, key=str) != sorted(range(1, num_layers + 1), key=str):
        raise invalid("linear_attn_config", given, f"does not name each of {num_layers} layers once")
    return [FULL if layer + 1 in full else LINEAR for layer in range(num_layers)]


# --- which layers rotate ------------------------------------------------------------------------------------------


def all_rotate(settings: Settings, types: list[str]) -> tuple[bool, ...]:
    """Rotate queries and keys in all layers, as Llama does."""
    return (True,) * len(types)


def rotates_by_list(settings: Settings, types: list[str]) -> tuple[bool, ...]:
    """Rotate where `no_rope_layers` says so, as SmolLM3 does."""
    return _no_rope_layers(settings, len(types))


def sliding_rotate(settings: Settings, types: list[str]) -> tuple[bool, ...]:
    """Rotate in the layers with a window alone, as Cohere 2 does."""
    return tuple(kind == SLIDING for kind in types)


def sliding_rotate_if_any(settings: Settings, types: list[str]) -> tuple[bool, ...]:
    """Rotate in the layers with a window alone, or in all of a model without one, as EXAONE 4 does."""
    return (sliding_rotate if uses_sliding_window(settings) else all_rotate)(settings, types)


def rotates_by_name(settings: Settings, types: list[str]) -> tuple[bool, ...]:
    """Rotate in all layers or in none, as `position_embedding_type` says, as Granite's hybrids do."""
    name = settings["position_embedding_type"]
    if name not in ("rope", "nope", None):
        raise invalid("position_embedding_type", name, "is neither 'rope' nor 'nope'")
    return (name == "rope",) * len(types)


def none_rotate(settings: Settings, types: list[str]) -> tuple[bool, ...]:
    """Rotate in no layer, as Nemotron-H does."""
    return (False,) * len(types)


def rotates_by_theta(settings: Settings, types: list[str]) -> tuple[bool, ...]:
    """Rotate in all layers unless theta is null, as OLMo's hybrids do."""
    given = settings.get("rope_scaling") or settings.get("rope_parameters") or {}
    return (given.get("rope_theta", settings["rope_theta"]) is not None,) * len(types)


def _no_rope_layers(settings: Settings, num_layers: int) -> tuple[bool, ...]:
    """Read `no_rope_layers`, which despite its name has a 1 for each layer that does rotate."""
    flags = settings["no_rope_layers"]
    if flags is None:
        interval = integer(settings, "no_rope_layer_interval")
        return tuple((layer + 1) % interval != 0 for layer in range(num_layers))
    if not isinstance(flags, list) or len(flags) < num_layers or any(flag not in (0, 1) for flag in flags):
        raise invalid("no_rope_layers", flags, f"wants a 0 or 1 for each of {num_layers} layers")
    return tuple(bool(flag) for flag in flags[:num_layers])
