"""Layers of 4 bits by the kernels against the same by PyTorch's operations, step by step, in hidden states and KV.

Those of other formats are in test_native_layer_kinds.py.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from runtime.checkpoint.config import parse_config
from runtime.devices.native.structures import MOST_ROWS
from runtime.nn.layers.native_layer import NativeLayer, with_native_layers
from runtime.nn.matrices.formats import choose_formats
from runtime.nn.matrices.linear import WeightFormats
from runtime.nn.matrices.quantization import Quantization
from runtime.nn.weights import build_weights
from runtime.step.step import Segment
from tests.models.layers.native_models import (
    CONTEXT,
    CPU,
    GEMMA3,
    GEMMA4,
    GRANITE,
    LLAMA,
    QWEN2,
    QWEN3,
    Drawn,
    Opaque,
    both,
    difference,
    run,
    segments_of,
)
from tests.models.step_driver import pages_of

if TYPE_CHECKING:
    from runtime.devices.native.kernels import Kernels
    from runtime.nn.model import Transformer

ROOT = Path(__file__).parents[5]
MODELS = {"llama": LLAMA, "qwen2": QWEN2, "qwen3": QWEN3, "granite": GRANITE}
# Each step's rows, by slot: from where, and how many.  Prompts first, which have too many rows for the kernels.
PROMPTS = {0: 70, 1: 33, 2: 12}
STEPS: list[dict[int, int]] = [{0: 1}, {0: 1, 1: 1, 2: 1}, {1: 5}, {0: 3, 2: 4, 3: 1}, {2: MOST_ROWS}, {3: 2, 1: 6}]
# Those with few rows and many in one step, and more of few rows than the kernels take at once.
STEPS += [{0: 1, 1: 40}, {2: 34, 3: 2}, {0: 5, 2: 33, 1: 1, 3: 35}, {0: 20, 1: 12, 2: 1, 3: 30}]

# Sums in another order are rounded otherwise, now and then by a unit of bfloat16, in which products are given.  How
# good they are by themselves is for `test_native_linear.py` to say.
TOLERANCE = {torch.float32: 0.01, torch.bfloat16: 0.02}


def four_bits(
    settings: dict[str, Any], dtype: torch.dtype, kernels: Kernels, quantize: Quantization = Quantization.INT4
) -> tuple[Transformer, Transformer]:
    if not torch.backends.cpu.get_cpu_capability().startswith("AVX"):
        pytest.skip("PyTorch packs four bits in no blocks here")
    return both(settings, dtype, kernels, choose_formats(quantize, CPU, dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("name", MODELS)
def test_few_rows_are_what_pytorch_makes_of_them(kernels: Kernels, name: str, dtype: torch.dtype) -> None:
    plain, native = four_bits(MODELS[name], dtype, kernels)
    assert native.native_layers == native.num_layers
    torch.manual_seed(2)
    lengths: dict[int, int] = {}
    with torch.inference_mode():
        for step in [*({slot: rows} for slot, rows in PROMPTS.items()), *STEPS]:
            segments = segments_of(step, lengths)
            reference, own = run(plain, segments), run(native, segments)
            assert difference(own.hidden, reference.hidden) < TOLERANCE[dtype], step
            for segment in segments:
                for layer in range(plain.num_layers):
                    pairs = zip(
                        native.kv.read(layer, segment.slot, 0, segment.end, segment.pages),
                        plain.kv.read(layer, segment.slot, 0, segment.end, segment.pages),
                        strict=True,
                    )
                    assert max(difference(mine, theirs) for mine, theirs in pairs) < TOLERANCE[dtype], step


def test_a_row_does_not_depend_on_its_neighbours(kernels: Kernels) -> None:
    """Not by a bit: which is more than PyTorch's products promise."""
    _, native = four_bits(QWEN3, torch.bfloat16, kernels)
    torch.manual_seed(3)
    lengths: dict[int, int] = {}
    with torch.inference_mode():
        for slot, rows in PROMPTS.items():
            run(native, segments_of({slot: rows}, lengths))
        segments = segments_of({0: 1, 1: 4, 2: 3}, lengths)
        together = run(native, segments).hidden
        alone = torch.cat([run(native, [segment]).hidden for segment in segments])
    assert torch.equal(together, alone)


def test_a_number_that_is_none_spoils_its_own_sequence_alone(kernels: Kernels) -> None:
    _, native = four_bits(LLAMA, torch.float32, kernels)
    torch.manual_seed(4)
    lengths: dict[int, int] = {}
    with torch.inference_mode():
        for slot in (0, 1):
            run(native, segments_of({slot: 20}, lengths))
        native.kv.read(0, 1, 3, 4, pages_of(1, CONTEXT))[0].fill_(torch.nan)
        finite = run(native, segments_of({0: 2, 1: 2}, lengths)).hidden.isfinite().all(-1)
    assert finite.tolist() == [True, True, False, False]


def test_many_rows_are_computed_by_pytorch(kernels: Kernels) -> None:
    plain, native = four_bits(LLAMA, torch.float32, kernels)
    segments = [Segment(0, 0, list(range(1, MOST_ROWS + 2)))]
    with torch.inference_mode():
        assert torch.equal(run(native, segments).hidden, run(plain, segments).hidden)


def test_all_of_this_holds_for_avx2(kernels: Kernels) -> None:
    """Of which PyTorch's matrices have smaller blocks; it decides when it is imported, so that takes a process."""
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        pytest.skip("this is such a process, or none can be")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    # oneDNN is told, too: PyTorch asks it for AMX, and would attend in a way that is not there for AVX2.
    environment = os.environ | {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
    ran = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    assert re.search(r"\b1[0-9] passed", ran.stdout), ran.stdout


OTHERS = {
    "an odd size": (LLAMA | {"intermediate_size": 368}, Quantization.INT4),
    "scores that are capped": (
        GEMMA3 | {"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "attn_logit_softcapping": 3.0},
        Quantization.INT4,
    ),
    "layers of several sizes": (GEMMA4, Quantization.INT4),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_the_kernels_do_not_have_is_left_to_pytorch(kernels: Kernels, name: str) -> None:
    settings, quantize = OTHERS[name]
    plain, native = four_bits(settings, torch.bfloat16, kernels, quantize)
    assert native.native_layers == 0
    segments = [Segment(0, 0, [5, 6])]
    with torch.inference_mode():
        assert torch.equal(run(native, segments).hidden, run(plain, segments).hidden)


def test_layers_that_they_can_compute_are_chosen_one_by_one(kernels: Kernels, caplog: pytest.LogCaptureFixture) -> None:
    """A model may have some layers with experts and others without.  The log says why these are left out."""
    caplog.set_level("INFO", "cede.model")
    config = parse_config(LLAMA)
    weights = [
        build_weights(Drawn(CPU, torch.float32, 1, formats), config)
        for formats in (choose_formats(Quantization.INT4, CPU, torch.float32), WeightFormats(Opaque, Opaque))
    ]
    layers = [weights[0].layers[0], weights[1].layers[1]]
    chosen = with_native_layers(layers, config, torch.float32, kernels)
    assert isinstance(chosen[0], NativeLayer)
    assert chosen[1] is layers[1]
    assert "the kernels do not compute 1 layer: weights in another format" in caplog.text
