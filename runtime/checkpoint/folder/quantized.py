"""Layout of a folder's matrices, by its config.json, and the matrices made of their parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.checkpoint.folder.compressed_tensors import compressed_layouts
from runtime.checkpoint.folder.fp8 import Fp8, Fp8Tensor
from runtime.checkpoint.folder.gptq import awq_layouts, gptq_layouts
from runtime.checkpoint.folder.mlx import mlx_layouts
from runtime.checkpoint.folder.mxfp4 import Mxfp4
from runtime.checkpoint.folder.packed import PackedMatrix
from runtime.checkpoint.folder.plain import FLOAT_BYTES
from runtime.checkpoint.json_fields import invalid
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.checkpoint.folder.packed import Layout
    from runtime.checkpoint.folder.plain import PlainTensor
    from runtime.checkpoint.json_fields import Settings
    from runtime.checkpoint.stored import StoredTensor


@dataclass(frozen=True, slots=True)
class _Method:
    """A way to quantise.

    Attributes:
        layouts: return a module's layout by its name; they read the entry of config.json.
        mark: the part that every quantised module has, and no other.
        parts: all parts that a layout takes; the mark is one of them.
        ignored: parts that say nothing that the others do not.
    """

    layouts: Callable[[Settings], Callable[[str], Layout]]
    mark: str
    parts: tuple[str, ...]
    ignored: tuple[str, ...] = ()


_MLX = _Method(mlx_layouts, "scales", ("weight", "scales", "biases"))
_FP8, _MXFP4 = "fp8", "mxfp4"
# By `quant_method`.
_METHODS = {
    "awq": _Method(awq_layouts, "qweight", ("qweight", "scales", "qzeros")),
    "gptq": _Method(gptq_layouts, "qweight", ("qweight", "scales", "qzeros", "g_idx")),
    "compressed-tensors": _Method(
        compressed_layouts,
        "weight_packed",
        ("weight_packed", "weight_scale", "weight_zero_point", "weight_g_idx"),
        ignored=("weight_shape",),
    ),
}


@dataclass(frozen=True, slots=True)
class Quantized:
    """Quantisation of the matrices of a folder."""

    method: _Method
    layout_of: Callable[[str], Layout]

    def assemble(self, found: Mapping[str, PlainTensor]) -> dict[str, StoredTensor]:
        """Put the parts of each quantised module together as its `weight`; all else stays as it is.

        Raises:
            CheckpointError: the parts of a module do not make a matrix.
        """
        ending = f".{self.method.mark}"
        modules = [name.removesuffix(ending) for name in found if name.endswith(ending)]
        whole: dict[str, StoredTensor] = dict(found)
        for module in modules:
            taken = {name: whole.pop(f"{module}.{name}", None) for name in self.method.parts + self.method.ignored}
            parts = {name: part for name, part in taken.items() if part is not None and name in self.method.parts}
            whole[f"{module}.weight"] = PackedMatrix.of(module, self.layout_of(module), parts)
        return whole


def read_quantized(settings: Settings) -> Quantized | Fp8 | Mxfp4 | None:
    """Read how a folder's matrices are quantised; None where they are plain numbers.

    MLX's tools write `quantization`, and most of them the same under `quantization_config`; others write the latter
    alone, and old ones of compressed-tensors `compression_config`.

    Raises:
        CheckpointError: they are in a form that cede does not read.
    """
    if (mlx := _entry(settings, "quantization")) is not None:
        return Quantized(_MLX, mlx_layouts(mlx))
    for key in ("quantization_config", "compression_config"):
        if (entry := _entry(settings, key)) is not None:
            name = entry.get("quant_method", "compressed-tensors" if key == "compression_config" else None)
            if name == _MXFP4:
                return Mxfp4()
            if name == _FP8:
                return Fp8(entry)
            method = _METHODS.get(str(name))
            if method is None:
                known = ", ".join((*_METHODS, _FP8, _MXFP4))
                raise invalid(f"{key}.quant_method", name, f"is not supported; these are: {known}")
            return Quantized(method, method.layouts(entry))
    return None


def refuse_parts(tensors: Mapping[str, StoredTensor]) -> None:
    """Raise CheckpointError where whole numbers are left that belong to no packed matrix."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, PackedMatrix | Fp8Tensor) and tensor.form not in FLOAT_BYTES:
            raise CheckpointError(f"{tensor.file}: {name} has numbers of the type {tensor.form}, which are not read")


def _entry(settings: Settings, key: str) -> Settings | None:
    entry = settings.get(key)
    if entry is not None and not isinstance(entry, Mapping):
        raise invalid(key, entry, "is not an object")
    return entry
