"""Layers whose matrices are in full or in 8 bits: by the kernels and by PyTorch, on each set of instructions."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

import pytest
import torch

from runtime.devices.native.kernels import Kernels, KernelsMissing
from runtime.devices.native.structures import MOST_ROWS
from runtime.nn.layers.attention import first_visible
from runtime.nn.matrices.int4 import CpuInt4
from runtime.nn.matrices.int8 import WeightInt8
from runtime.nn.matrices.linear import BlockedMatrix, PlainMatrix, WeightFormats, has_onednn
from runtime.nn.matrices.panels import NARROW, PANEL, Panels
from tests.models import step_driver
from tests.models.layers.native_models import (
    CPU,
    FEW,
    GEMMA3,
    GRANITE,
    GRANITE_HYBRID,
    HUNYUAN,
    KIMI,
    LFM2,
    LLAMA,
    MINISTRAL3,
    NEMOTRON,
    PHI3,
    QWEN2,
    QWEN3,
    QWEN3_5,
    SMOLLM3,
    Opaque,
    both,
    difference,
    run,
    segments_of,
    states_left,
)

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.nn.matrices.linear import MatrixFormat, WeightMatrix
    from runtime.nn.model import Transformer


class Pairs(BlockedMatrix):
    """Matrix as oneDNN makes it of bfloat16 where it has products for it, made by hand: panels of pairs of inputs."""

    WIDTH = PANEL

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self.shape, self.dtype, self.bias = weight.shape, weight.dtype, bias
        self._plain = PlainMatrix(weight, bias)
        outputs, inputs = weight.shape
        self._packed = weight.view(outputs // self.WIDTH, self.WIDTH, inputs // 2, 2).transpose(1, 2).contiguous()
        self.form, self.nbytes = self._plain.form, self._plain.nbytes

    @property
    def panels(self) -> Panels | None:
        """Return where they lie."""
        return Panels(self._packed.data_ptr(), self.WIDTH)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply `[rows, in]` to `[rows, out]`."""
        return self._plain(x)


class NarrowPairs(Pairs):
    """Matrix as it makes it where the processor has AMX."""

    WIDTH = NARROW


class Widened(PlainMatrix):
    """Weights of 16 bits for rows of 32, by PyTorch's numbers."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply `[rows, in]` to `[rows, out]`."""
        return torch.nn.functional.linear(x, self.weight.float(), self.bias)


# Sizes in pieces of sixteen outputs and no larger ones, five query heads to a key head, biases.
ODD = QWEN2 | {
    "hidden_size": 176,
    "intermediate_size": 208,
    "num_attention_heads": 5,
    "num_key_value_heads": 1,
    "head_dim": 32,
}
# The largest ratio of query heads that whole panels allow here, and inputs of which some are a part of a tile.
WIDE = HUNYUAN | {"hidden_size": 128, "intermediate_size": 192, "num_attention_heads": 7, "num_key_value_heads": 1}
MODELS = {
    "llama": LLAMA,
    "qwen2": QWEN2,
    "qwen3": QWEN3,
    "granite": GRANITE,
    "gemma3": GEMMA3,
    "ministral3": MINISTRAL3,
    "phi3": PHI3,
    "smollm3": SMOLLM3,
    "odd": ODD,
    "wide": WIDE,
    "lfm2": LFM2,
    "qwen3.5": QWEN3_5,
    "granite hybrid": GRANITE_HYBRID,
}
RECURRENT = (LFM2, QWEN3_5, GRANITE_HYBRID)
FORMATS: dict[str, MatrixFormat] = {
    "rows": PlainMatrix,
    "rows of bfloat16": lambda weight, bias: Widened(weight.bfloat16(), bias),
    "rows of float16": lambda weight, bias: Widened(weight.half(), bias),
    "panels": BlockedMatrix,
    "pairs": Pairs,
    "narrow pairs": NarrowPairs,
    "int8": WeightInt8,
}
FLOAT32, BFLOAT16 = torch.float32, torch.bfloat16
DTYPES = {
    "rows": (FLOAT32, BFLOAT16),
    "rows of bfloat16": (FLOAT32,),
    "rows of float16": (FLOAT32,),
    "panels": (FLOAT32,),
    "pairs": (BFLOAT16,),
    "narrow pairs": (BFLOAT16,),
    "int8": (FLOAT32, BFLOAT16),
}
KINDS = [(name, dtype) for name, dtypes in DTYPES.items() for dtype in dtypes]
kinds = pytest.mark.parametrize(("kind", "dtype"), KINDS, ids=[f"{name} {str(dtype)[6:]}" for name, dtype in KINDS])

TOLERANCE = {FLOAT32: 1e-5, BFLOAT16: 0.02}


def tolerance_of(name: str, kind: str, dtype: torch.dtype) -> float:
    """Return how far sums in another order may lead."""
    if kind == "int8" and dtype == FLOAT32:  # products with 8 bits are rounded to bfloat16, whatever the rows are
        return 0.02 if name == "gemma3" else 0.01  # where a norm behind each part brings up what was small
    if name == "gemma3" and dtype == BFLOAT16:
        return 0.05  # a norm behind each part brings up what was small; 0.03 was seen beside AMX
    return TOLERANCE[dtype]


@pytest.fixture(params=["avx2", "avx512", "avx512_bf16", "amx", "neon", "neon_dot"])
def target(library: Path, request: pytest.FixtureRequest) -> Kernels:
    """The kernels of one set of instructions, on three threads."""
    try:
        return Kernels(library, threads=3, only=request.param)
    except KernelsMissing as why:
        pytest.skip(str(why))


def models(kind: str, settings: dict[str, Any], dtype: torch.dtype, target: Kernels) -> tuple[Transformer, Transformer]:
    """Two models, of which the kernels compute all layers of the second."""
    if kind == "panels" and not has_onednn(CPU):
        pytest.skip("this PyTorch has no oneDNN for x86")
    own = FORMATS[kind]
    plain, native = both(settings, dtype, target, WeightFormats(own, own))
    if kind == "panels" and not native.native_layers and torch.backends.cpu.get_cpu_capability() != "AVX2":
        pytest.skip("oneDNN packs such weights otherwise for this processor")
    assert native.native_layers == native.num_layers
    return plain, native


@kinds
@pytest.mark.parametrize("name", MODELS)
def test_few_rows_are_what_pytorch_makes_of_them(target: Kernels, name: str, kind: str, dtype: torch.dtype) -> None:
    """Of one sequence and of as many as there are rows, by the hidden states, the KV and the states of recurrence."""
    if name == "odd" and not kind.startswith("rows"):
        pytest.skip("such sizes are not in whole panels, nor in pieces of 32 inputs")
    plain, native = models(kind, MODELS[name], dtype, target)
    tolerance = tolerance_of(name, kind, dtype)
    torch.manual_seed(2)
    lengths: dict[int, int] = {}
    steps = [{slot: 9 + slot % 20} for slot in range(MOST_ROWS)]
    for rows in FEW:
        steps += [{0: rows}, dict.fromkeys(range(rows), 1)]
    with torch.inference_mode():
        for step in steps:
            segments = segments_of(step, lengths)
            reference, own = run(plain, segments), run(native, segments)
            assert difference(own.hidden, reference.hidden) < tolerance, step
            for segment in segments:
                for layer in plain.config.kv_layers:
                    first = first_visible(segment, plain.config.window[layer])
                    read = (layer, segment.slot, first, segment.end, segment.pages)
                    pairs = zip(native.kv.read(*read), plain.kv.read(*read), strict=True)
                    assert max(difference(mine, theirs) for mine, theirs in pairs) < tolerance, (step, layer)
            for mine, theirs in zip(states_left(native, segments), states_left(plain, segments), strict=True):
                assert difference(mine, theirs) < tolerance, step


@kinds
@pytest.mark.parametrize("name", ["wide", "gemma3", "lfm2", "qwen3.5", "granite hybrid"])
def test_a_row_does_not_depend_on_its_neighbours(target: Kernels, name: str, kind: str, dtype: torch.dtype) -> None:
    """Not by a bit, whatever their number: sums are added up in one order."""
    _, native = models(kind, MODELS[name], dtype, target)
    torch.manual_seed(3)
    lengths: dict[int, int] = {}
    with torch.inference_mode():
        for slot in range(MOST_ROWS):
            run(native, segments_of({slot: 9 + slot % 20}, lengths))
        segments = segments_of(dict.fromkeys(range(MOST_ROWS), 1), lengths)
        alone = [run(native, [segment]).hidden for segment in segments]
        for rows in FEW[1:]:
            together = run(native, segments[-rows:]).hidden
            assert torch.equal(together, torch.cat(alone[-rows:])), rows


def test_a_state_is_left_behind_each_draft(target: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    """That which as many rows by themselves leave; the state that they go on from stays as it was."""
    monkeypatch.setattr(step_driver, "STATES_EVERY", 1)
    for settings in RECURRENT:
        _, native = models("rows", settings, FLOAT32, target)
        torch.manual_seed(4)
        lengths: dict[int, int] = {}
        with torch.inference_mode():
            before = segments_of({0: 7, 1: 5}, lengths)
            run(native, before)
            kept = [part.clone() for part in states_left(native, before)]
            run(native, segments := segments_of({0: 6, 1: 1}, lengths))
            together = [part.clone() for part in states_left(native, segments)]
            assert all(map(torch.equal, states_left(native, before), kept))
            for part in range(6):
                run(native, [segments[0].piece(part, part + 1)])
            run(native, segments[1:])
            assert all(map(torch.equal, states_left(native, segments), together))


def test_a_layer_may_lack_an_mlp(target: Kernels) -> None:
    plain, native = both(NEMOTRON, FLOAT32, target, WeightFormats(PlainMatrix, PlainMatrix))
    assert native.native_layers == 1
    torch.manual_seed(5)
    lengths: dict[int, int] = {}
    with torch.inference_mode():
        for step in ({0: 3, 1: 20}, {0: 1}, {0: 1, 1: 1}):
            segments = segments_of(step, lengths)
            assert difference(run(native, segments).hidden, run(plain, segments).hidden) < TOLERANCE[FLOAT32]
            for mine, theirs in zip(states_left(native, segments), states_left(plain, segments), strict=True):
                assert difference(mine, theirs) < TOLERANCE[FLOAT32]


def test_a_layer_may_have_matrices_of_several_kinds(kernels: Kernels) -> None:
    on_x86: list[MatrixFormat] = [CpuInt4.quantised, PlainMatrix, WeightInt8, BlockedMatrix]
    makers = cycle(on_x86 if has_onednn(CPU) else on_x86[1:3])

    def made(weight: torch.Tensor, bias: torch.Tensor | None) -> WeightMatrix:
        return next(makers)(weight, bias)

    plain, native = both(LLAMA, FLOAT32, kernels, WeightFormats(made, PlainMatrix))
    assert native.native_layers == native.num_layers
    segments = segments_of({0: 3, 1: 2}, {})
    with torch.inference_mode():
        assert difference(run(native, segments).hidden, run(plain, segments).hidden) < 0.005


OTHERS: dict[str, tuple[dict[str, Any], MatrixFormat, torch.dtype]] = {
    "another format": (LLAMA, Opaque, FLOAT32),
    "another dtype": (LLAMA, PlainMatrix, torch.float16),
    "a part of each head that is not in whole vectors": (PHI3 | {"partial_rotary_factor": 0.75}, PlainMatrix, FLOAT32),
    "heads that are not in whole vectors": (
        QWEN3_5 | {"linear_key_head_dim": 40, "head_dim": 48},
        PlainMatrix,
        FLOAT32,
    ),
    "channels that decay each by itself": (KIMI, PlainMatrix, FLOAT32),
    "sizes that are not in whole vectors": (LLAMA | {"intermediate_size": 456}, PlainMatrix, FLOAT32),
    "an inner width that is not in whole panels": (LLAMA | {"intermediate_size": 480}, BlockedMatrix, FLOAT32),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_the_kernels_do_not_have_is_left_to_pytorch(kernels: Kernels, name: str) -> None:
    settings, made, dtype = OTHERS[name]
    if made is BlockedMatrix and not has_onednn(CPU):
        pytest.skip("this PyTorch has no oneDNN for x86")
    plain, native = both(settings, dtype, kernels, WeightFormats(made, made))
    assert native.native_layers == 0
    segments = segments_of({0: 2}, {})
    with torch.inference_mode():
        assert torch.equal(run(native, segments).hidden, run(plain, segments).hidden)
