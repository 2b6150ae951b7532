"""Metal's kernels for few rows of recurrent layers, as C++, beside PyTorch's operations; and what is noticed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from runtime.checkpoint.config import parse_config
from runtime.devices.mps.states import compile_states
from runtime.devices.single_rows.check import WrongRows
from runtime.nn.state_check import check_states
from tests.fakes.devices.metal.compiled import Library, Shim
from tests.models.layers.native_models import CPU, GRANITE_HYBRID, KIMI, QWEN3_5

SMALL = {"mamba_n_heads": 4, "mamba_expand": 1, "hidden_size": 64}
# Sizes that are no multiples of what is computed at a time: keys of 36 numbers, values of 80, states of 48.
MODELS = {
    "qwen3.5": QWEN3_5 | {"linear_key_head_dim": 36},
    "granite hybrid": GRANITE_HYBRID | SMALL,
    "kimi": KIMI | {"linear_head_dim": 36},
}
FLOAT32, BFLOAT16 = torch.float32, torch.bfloat16


def checked(
    monkeypatch: pytest.MonkeyPatch, shim: Shim, name: str, dtype: torch.dtype, old: str = "", new: str = ""
) -> float:
    def compile_shader(source: str) -> Library:
        assert not old or source.count(old) == 1
        return shim(source.replace(old, new) if old else source)

    monkeypatch.setattr(torch.mps, "compile_shader", compile_shader)
    settings: dict[str, Any] = MODELS[name]
    config = parse_config({key: value for key, value in settings.items() if value is not None})
    with torch.inference_mode():
        return check_states(compile_states(config, dtype), config, CPU, dtype)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, FLOAT32) for name in MODELS), ("qwen3.5", BFLOAT16)],
    ids=str,
)
def test_kernels_of_metal_are_what_pytorch_computes(
    monkeypatch: pytest.MonkeyPatch, shim: Shim, name: str, dtype: torch.dtype
) -> None:
    assert checked(monkeypatch, shim, name, dtype) < {FLOAT32: 2e-6, BFLOAT16: 1e-2}[dtype]


@pytest.mark.parametrize(
    ("name", "old", "new", "part"),
    [
        ("qwen3.5", "threadgroup_barrier(mem_flags::mem_threadgroup);", "", "rows"),
        ("qwen3.5", "matrices[written * buffer + i * dim] = own[i];", "", "states, part 2"),
        ("granite hybrid", "VALUE(seen[i + 1])", "VALUE(seen[i])", "states, part 1"),
        ("granite hybrid", "max(x, 0.0f) + p * z", "max(x, 0.0f) + z", "rows"),
    ],
)
def test_a_kernel_that_is_wrong_is_noticed(
    monkeypatch: pytest.MonkeyPatch, shim: Shim, name: str, old: str, new: str, part: str
) -> None:
    with pytest.raises(WrongRows, match=f"differ from PyTorch's operations by .*: {part}$"):
        checked(monkeypatch, shim, name, FLOAT32, old, new)
