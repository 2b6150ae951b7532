"""Metal's kernels for recurrent layers: which models they have.  What they compute is looked at in `state_check`."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from runtime.checkpoint.config import ModelConfig, parse_config
from runtime.checkpoint.recurrent_config import GatedDeltaConfig, NoMixerConfig, ShortConvConfig
from runtime.devices.mps.compiling import NoKernels
from runtime.devices.mps.states import compile_states
from tests.models.layers.native_models import LLAMA

CONFIG = parse_config(LLAMA)
CONVOLUTION = ShortConvConfig(channels=64, width=3, bias=False)
DELTA = GatedDeltaConfig(width=4, key_heads=2, heads=4, key_dim=32, value_dim=32)


def of(*recurrent: ShortConvConfig | GatedDeltaConfig | NoMixerConfig | None) -> ModelConfig:
    return replace(CONFIG, recurrent=recurrent)


@pytest.mark.parametrize(
    ("config", "dtype", "why"),
    [
        (of(CONVOLUTION, DELTA), torch.float32, "layers of other sizes each"),
        (of(DELTA, replace(DELTA, heads=8)), torch.float32, "layers of other sizes each"),
        (of(DELTA, None), torch.float64, "rows in torch.float64"),
        (of(replace(DELTA, key_dim=264)), torch.float32, "keys of 264 numbers, and convolutions of 4 rows"),
        (of(replace(CONVOLUTION, width=1)), torch.float32, "keys of 1 numbers, and convolutions of 1 rows"),
    ],
)
def test_a_model_that_they_do_not_have_is_named(
    monkeypatch: pytest.MonkeyPatch, config: ModelConfig, dtype: torch.dtype, why: str
) -> None:
    monkeypatch.setattr(torch.mps, "compile_shader", lambda source: pytest.fail("it was compiled"))
    with pytest.raises(NoKernels, match=f"^{why}$"):
        compile_states(config, dtype)


def test_what_is_defined_is_what_the_model_has(monkeypatch: pytest.MonkeyPatch) -> None:
    sources: list[str] = []
    monkeypatch.setattr(torch.mps, "compile_shader", sources.append)
    compile_states(of(NoMixerConfig(), DELTA, None, DELTA), torch.bfloat16)
    compile_states(of(CONVOLUTION), torch.float16)
    heads = [source.splitlines()[1:4] for source in sources]
    assert heads == [
        ["#define VALUE bfloat", "#define WIDTH 4", "#define KEYS 32"],
        ["#define VALUE half", "#define WIDTH 3", "#define KEYS 1"],
    ]
