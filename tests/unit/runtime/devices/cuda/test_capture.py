"""Capture of layers: where they can be recorded, and where the log says why not."""

from __future__ import annotations

import sys

import pytest
import torch

from runtime.devices.cuda import capture


def test_nothing_is_recorded_for_a_cpu() -> None:
    assert capture.open_capture(torch.device("cpu")) is None


def test_without_triton_the_log_says_that_nothing_is_recorded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "cede.model")
    monkeypatch.setitem(sys.modules, "runtime.devices.cuda.kernels", None)
    assert capture.open_capture(torch.device("cuda")) is None
    assert "no CUDA graphs of layers" in caplog.text
