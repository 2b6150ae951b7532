"""Computation of few rows, and where nothing computes all of them deterministically."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from runtime.checkpoint.config import parse_config
from runtime.devices.mps import rows as mps_rows
from runtime.devices.mps.rows import MetalRows
from runtime.devices.mps.states import MetalStates
from runtime.devices.native.kernels import Kernels
from runtime.errors import CheckpointError
from runtime.loading import few_rows
from runtime.loading.few_rows import (
    FewRows,
    check_deterministic,
    open_few_rows,
    open_row_kernels,
    open_state_kernels,
)
from runtime.loading.load import describe_model, load_model
from runtime.loading.options import LoadOptions
from runtime.nn import state_check
from runtime.store.resolve import resolve_model
from tests.fakes.devices.metal.compiled import Shim
from tests.models.checkpoints import FAMILIES
from tests.models.layers.native_models import LFM2, LLAMA

CPU, CONFIG = torch.device("cpu"), parse_config(LLAMA)


@pytest.mark.parametrize(
    ("device", "options", "why"),
    [
        ("cpu", {"native": "off"}, "the kernels that --native off leaves out"),
        ("cpu", {"tensor_parallel": 2}, "the ranks of --tensor-parallel 2"),
        ("cuda", {}, "the model is on cuda"),
        ("mps", {}, "the model is on mps"),
    ],
)
def test_options_that_do_without_kernels_are_refused(
    device: str, options: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is loaded."""
    monkeypatch.setattr(few_rows, "select_device", torch.device)
    asked = LoadOptions(resolve_model(None), device=device, **options)
    check_deterministic(asked)
    with pytest.raises(CheckpointError, match=why) as error:
        check_deterministic(replace(asked, deterministic="on"))
    assert str(error.value).startswith("--deterministic on: ")


def test_kernels_that_are_missing_are_asked_for_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(few_rows, "open_kernels", lambda threads: None)
    assert open_few_rows("auto", CONFIG, CPU, torch.float32) == FewRows()
    with pytest.raises(CheckpointError, match="the log says why"):
        open_few_rows("auto", CONFIG, CPU, torch.float32, deterministic=True)


def test_with_kernels_it_is_not(monkeypatch: pytest.MonkeyPatch, kernels: Kernels) -> None:
    monkeypatch.setattr(few_rows, "open_kernels", lambda threads: kernels)
    assert open_few_rows("auto", CONFIG, CPU, torch.float32, deterministic=True) == FewRows(kernels)


def test_nothing_is_opened_that_was_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(few_rows, "open_kernels", lambda threads: pytest.fail("they were"))
    monkeypatch.setattr(mps_rows, "open_rows", lambda config, device, dtype: pytest.fail("they were"))
    for device in (CPU, torch.device("mps")):
        assert open_few_rows("off", CONFIG, device, torch.float32) == FewRows()


def test_on_mps_single_rows_have_kernels(monkeypatch: pytest.MonkeyPatch, shim: Shim) -> None:
    """For each model its own, and a drafter has its own too."""
    opened = MetalRows(shim, torch.float16, 32)
    asked = []

    def open_rows(*wanted: object) -> MetalRows:
        asked.append(wanted)
        return opened

    monkeypatch.setattr(mps_rows, "open_rows", open_rows)
    device = torch.device("mps")
    assert open_few_rows("auto", CONFIG, device, torch.float16) == FewRows(row_kernels=opened)
    assert open_row_kernels(CONFIG, device, torch.float32) is opened
    assert asked == [(CONFIG, device, torch.float16), (CONFIG, device, torch.float32)]
    assert open_row_kernels(CONFIG, CPU, torch.float32) is None


def test_on_mps_recurrent_layers_have_kernels_that_agree_with_pytorch(
    monkeypatch: pytest.MonkeyPatch, shim: Shim, caplog: pytest.LogCaptureFixture
) -> None:
    """The check is run where the tensors are: here on the CPU."""
    caplog.set_level("INFO", "cede.model")
    config = parse_config({key: value for key, value in LFM2.items() if value is not None})
    monkeypatch.setattr(torch.mps, "compile_shader", shim)
    monkeypatch.setattr(state_check, "check_states", partial(_on_cpu, state_check.check_states))
    device = torch.device("mps")
    assert isinstance(open_state_kernels(config, device, torch.float32), MetalStates)
    assert caplog.messages[-1].startswith(
        "recurrent layers of few rows by Metal kernels, which differ from PyTorch's by "
    )
    assert open_state_kernels(CONFIG, device, torch.float32) is None
    assert open_state_kernels(config, CPU, torch.float32) is None


def _on_cpu(check: Callable[..., float], kernels: MetalStates, **about: Any) -> float:  # noqa: ANN401
    return check(kernels, **(about | {"device": CPU}))


def test_a_model_that_the_kernels_do_not_have_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernels: Kernels
) -> None:
    monkeypatch.setattr(few_rows, "open_kernels", lambda threads: kernels)
    FAMILIES["qwen3-moe"](tmp_path)
    options = LoadOptions(tmp_path, slots=1, context=64, device="cpu", dtype="float32", deterministic="on")
    _, checkpoint = describe_model(options, "experts")
    with pytest.raises(CheckpointError, match="kernels, which do not have"):
        load_model(options, checkpoint)
