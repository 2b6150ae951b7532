"""What computes few rows, and where nothing computes all of them deterministically."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from runtime.errors import CheckpointError
from runtime.loading import few_rows
from runtime.loading.few_rows import check_deterministic, open_few_rows
from runtime.loading.load import describe_model, load_model
from runtime.loading.options import LoadOptions
from runtime.store.resolve import resolve_model
from tests.models.checkpoints import FAMILIES

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.native.kernels import Kernels

CPU = torch.device("cpu")


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
    assert open_few_rows("auto", CPU) == (None, None)
    with pytest.raises(CheckpointError, match="the log says why"):
        open_few_rows("auto", CPU, deterministic=True)


def test_with_kernels_it_is_not(monkeypatch: pytest.MonkeyPatch, kernels: Kernels) -> None:
    monkeypatch.setattr(few_rows, "open_kernels", lambda threads: kernels)
    assert open_few_rows("auto", CPU, deterministic=True) == (kernels, None)


def test_nothing_is_opened_that_was_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(few_rows, "open_kernels", lambda threads: pytest.fail("they were"))
    assert open_few_rows("off", CPU) == (None, None)


def test_a_model_that_the_kernels_do_not_have_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernels: Kernels
) -> None:
    monkeypatch.setattr(few_rows, "open_kernels", lambda threads: kernels)
    FAMILIES["qwen3-moe"](tmp_path)
    options = LoadOptions(tmp_path, slots=1, context=64, device="cpu", dtype="float32", deterministic="on")
    _, checkpoint = describe_model(options, "experts")
    with pytest.raises(CheckpointError, match="kernels, which do not have"):
        load_model(options, checkpoint)
