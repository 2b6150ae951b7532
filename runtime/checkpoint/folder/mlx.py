"""MLX's affine layout: what `mlx.core.quantize` makes of a matrix.

The codes of a row lie one behind the other in 32-bit words, the lowest bits first; a weight is `scale * code + bias`
(https://ml-explore.github.io/mlx/build/html/python/_autosummary/mlx.core.quantize.html).  Linear layers, embeddings and
stacks of experts are stored alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.checkpoint.folder.packed import FLOATS, WORDS, Groups, Part, unpack, words_of
from runtime.checkpoint.json_fields import integer, invalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.checkpoint.folder.packed import Layout, Parts
    from runtime.checkpoint.json_fields import Settings
    from runtime.checkpoint.stored import Rows

MODES = ("affine",)
BITS = (2, 3, 4, 5, 6, 8)
GROUPS = (32, 64, 128)


@dataclass(frozen=True, slots=True)
class MlxLayout:
    """`weight` has the codes, `scales` and `biases` have a number for each group."""

    bits: int
    group: int
    name: str = "affine"

    def shape(self, parts: Parts) -> tuple[int, ...]:
        """Return the shape that the groups make."""
        *outputs, groups = parts["scales"].shape
        return (*outputs, groups * self.group)

    def expected(self, shape: tuple[int, ...], parts: Parts) -> dict[str, Part]:
        """Return the three parts."""
        *outputs, inputs = shape
        by_group = Part((*outputs, inputs // self.group), FLOATS)
        return {
            "weight": Part((*outputs, words_of(inputs, self.bits)), WORDS),
            "scales": by_group,
            "biases": by_group,
        }

    def read(self, parts: Parts, rows: Rows) -> Groups:
        """Read rows."""
        groups = parts["scales"].shape[-1]
        words, scales, biases = (parts[name].expand(rows) for name in ("weight", "scales", "biases"))
        return Groups(
            unpack(words.view(-1, words.shape[-1]), self.bits),
            scales.reshape(-1, groups).float(),
            biases=biases.reshape(-1, groups).float(),
        )


def mlx_layouts(quantization: Settings) -> Callable[[str], Layout]:
    """Return each module's layout, by its name, as `config["quantization"]` says.

    Besides the layout of all modules that are quantised, it may name some that have another.

    Raises:
        CheckpointError: a mode, a number of bits or a group is not one that cede computes.
    """
    usual = _layout("quantization", quantization)
    special = {
        name: _layout(f"quantization.{name}", {**quantization, **entry})
        for name, entry in quantization.items()
        if isinstance(entry, Mapping)
    }
    return lambda module: special.get(module, usual)


def _layout(key: str, settings: Settings) -> MlxLayout:
    mode = settings.get("mode", "affine")
    if mode not in MODES:
        raise invalid(f"{key}.mode", mode, f"is not supported; this is: {', '.join(MODES)}")
    bits, group = integer(settings, "bits"), integer(settings, "group_size")
    if bits not in BITS:
        raise invalid(f"{key}.bits", bits, f"is not supported; these are: {', '.join(map(str, BITS))}")
    if group not in GROUPS:
        raise invalid(f"{key}.group_size", group, f"is not supported; these are: {', '.join(map(str, GROUPS))}")
    return MlxLayout(bits, group)
