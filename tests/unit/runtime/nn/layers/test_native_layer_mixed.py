"""Layers of which a file has some parts in other bits, as a `Q4_K_M` has values: by the kernels and by PyTorch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import torch

from runtime.nn.layers.mlp import GatedMlp
from runtime.nn.matrices.arithmetic import quantize_int4
from runtime.nn.matrices.byte_products import ByteCodes, ByteInt8
from runtime.nn.matrices.int4 import CpuInt4
from runtime.nn.matrices.int8 import WeightInt8
from runtime.nn.matrices.linear import PlainMatrix, WeightFormats
from tests.models.layers.native_models import (
    FEW,
    GEMMA3,
    LLAMA,
    QWEN2,
    QWEN3,
    InParts,
    Opaque,
    both,
    difference,
    run,
    segments_of,
)

if TYPE_CHECKING:
    from runtime.devices.native.kernels import Kernels
    from runtime.nn.matrices.linear import MatrixFormat

MODELS = {"llama": LLAMA, "qwen2": QWEN2, "qwen3": QWEN3, "gemma3": GEMMA3}


def four_bits_by_bytes(weight: torch.Tensor, bias: torch.Tensor | None, kernels: Kernels) -> ByteCodes:
    return ByteCodes(quantize_int4(weight, torch.bfloat16), bias, kernels)


def formats_of(kernels: Kernels) -> dict[str, tuple[MatrixFormat, MatrixFormat, float]]:
    """The format of most parts, that of the others, and how far sums in another order may lead."""
    four, eight = partial(four_bits_by_bytes, kernels=kernels), partial(ByteInt8, kernels=kernels)
    return {
        "plain, int8": (PlainMatrix, WeightInt8, 0.02),
        "int4, int8": (CpuInt4.quantised, WeightInt8, 0.02),
        "int4, int8, by bytes": (four, eight, 0.02),
    }


@pytest.mark.parametrize("kind", ["plain, int8", "int4, int8", "int4, int8, by bytes"])
@pytest.mark.parametrize("name", MODELS)
def test_few_rows_are_what_pytorch_makes_of_them(kernels: Kernels, name: str, kind: str) -> None:
    if kind == "int4, int8" and not torch.backends.cpu.get_cpu_capability().startswith("AVX"):
        pytest.skip("PyTorch packs four bits in no blocks here")
    most, others, tolerance = formats_of(kernels)[kind]
    plain, native = both(MODELS[name], torch.float32, kernels, WeightFormats(most, others), source=InParts)
    assert native.native_layers == native.num_layers
    torch.manual_seed(2)
    lengths: dict[int, int] = {}
    with torch.inference_mode():
        for step in [{0: 20, 1: 3}, *({0: rows, 1: 1} for rows in FEW[:-1])]:
            segments = segments_of(step, lengths)
            reference, own = run(plain, segments), run(native, segments)
            assert difference(own.hidden, reference.hidden) < tolerance, step


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("settings", [QWEN2, QWEN3, GEMMA3], ids=["qwen2", "qwen3", "gemma3"])
def test_parts_of_one_form_are_what_one_matrix_is(
    kernels: Kernels, settings: dict[str, Any], dtype: torch.dtype
) -> None:
    """To the bit."""
    formats = WeightFormats(PlainMatrix, PlainMatrix)
    _, parted = both(settings, dtype, kernels, formats, source=InParts)
    _, whole = both(settings, dtype, kernels, formats)
    mlps = [layer.mlp for layer in parted.weights.layers]
    assert [len(mlp.gate_up.matrices) for mlp in mlps if isinstance(mlp, GatedMlp)] == [2, 2]
    torch.manual_seed(3)
    lengths: dict[int, int] = {}
    with torch.inference_mode():
        for step in ({0: 20, 1: 3}, {0: 1, 1: 2}):
            segments = segments_of(step, lengths)
            assert torch.equal(run(parted, segments).hidden, run(whole, segments).hidden)


def test_a_part_in_another_format_leaves_the_layer_to_pytorch(
    kernels: Kernels, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "cede.model")
    _, native = both(LLAMA, torch.float32, kernels, WeightFormats(PlainMatrix, Opaque), source=InParts)
    assert native.native_layers == 0
    assert "2 layers: weights in another format" in caplog.text
