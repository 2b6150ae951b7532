"""MLX's layouts: what `mlx.core.quantize` makes of a matrix in each of its modes.

The affine one: the codes of a row lie one behind the other in 32-bit words, the lowest bits first; a weight is
`scale * code + bias` (https://ml-explore.github.io/mlx/build/html/python/_autosummary/mlx.core.quantize.html).  The
others are in `microscaling`.  Linear layers, embeddings and stacks of experts are stored alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runtime.checkpoint.folder.microscaling import MXFP4, MXFP8, NVFP4
from runtime.checkpoint.folder.packed import FLOATS, WORDS, Groups, Part, WholeNumbers, unpack, words_of
from runtime.checkpoint.json_fields import integer, invalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.checkpoint.folder.microscaling import FloatLayout
    from runtime.checkpoint.folder.packed import Layout, Parts
    from runtime.checkpoint.json_fields import Settings
    from runtime.checkpoint.stored import Rows

BITS = (2, 3, 4, 5, 6, 8)
GROUPS = (32, 64, 128)


@dataclass(frozen=True, slots=True)
class MlxLayout(WholeNumbers):
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


# By mode, with the bits and the group that it has where nothing is said.
_MODES: Mapping[str, MlxLayout | FloatLayout] = {
    "affine": MlxLayout(4, 64),
    "mxfp4": MXFP4,
    "mxfp8": MXFP8,
    "nvfp4": NVFP4,
}


def mlx_layouts(quantization: Settings) -> Callable[[str], Layout]:
    """Return each module's layout, by its name, as `config["quantization"]` says.

    Besides the layout of all modules that are quantised, it may name some that have another.  What such an entry does
    not say is not that of all: without a mode it is affine, as mlx-lm has routers in a model of another mode.

    Raises:
        CheckpointError: a mode, a number of bits or a group is not one that cede computes.
    """
    usual = _layout("quantization", quantization)
    special = {
        name: _layout(f"quantization.{name}", entry)
        for name, entry in quantization.items()
        if isinstance(entry, Mapping)
    }
    return lambda module: special.get(module, usual)


def _layout(key: str, settings: Settings) -> MlxLayout | FloatLayout:
    mode = settings.get("mode", "affine")
    layout = _MODES.get(str(mode))
    if layout is None:
        raise invalid(f"{key}.mode", mode, f"is not supported; these are: {', '.join(_MODES)}")
    is_affine = isinstance(layout, MlxLayout)
    given = {"bits": layout.bits, "group_size": layout.group, **settings}
    bits, group = integer(given, "bits"), integer(given, "group_size")
    for name, value, known in (
        ("bits", bits, BITS if is_affine else (layout.bits,)),
        ("group_size", group, GROUPS if is_affine else (layout.group,)),
    ):
        if value not in known:
            raise invalid(f"{key}.{name}", value, f"is not supported; these are: {', '.join(map(str, known))}")
    return replace(layout, bits=bits, group=group)
