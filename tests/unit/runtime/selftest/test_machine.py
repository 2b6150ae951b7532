"""Machine, in words."""

from __future__ import annotations

import pytest

from runtime.devices.native import kernels
from runtime.selftest import machine
from runtime.store.resolve import resolve_model


def test_a_library_that_is_not_installed_is_said_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """As cede is not, where it runs from a checkout."""
    monkeypatch.setattr(machine, "LIBRARIES", ("trio", "no-such-library"))
    facts = machine.describe_machine()
    assert facts["no-such-library"] == "not installed"
    assert facts["trio"][0].isdigit()


def test_how_a_model_fits_is_said_for_each_form_of_its_weights() -> None:
    facts = machine.describe_fit(resolve_model(None), "cpu", "float32")
    assert list(facts) == ["stored", *(f"with --quantize {bits}" for bits in ("auto", "int8", "int4"))]
    assert facts["stored"].startswith("BF16 ")
    assert "4 slots of 4096 tokens fit into" in facts["with --quantize auto"]


@pytest.mark.parametrize(("processor", "why"), [("x86_64", "g++"), ("arm64", "g++"), ("riscv64", "need an x86-64")])
def test_kernels_that_were_not_built_are_told_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, processor: str, why: str
) -> None:
    monkeypatch.setattr(kernels, "EXTENSION_SUFFIXES", [".missing"])
    monkeypatch.setattr("platform.machine", lambda: processor)
    assert why in kernels.describe_kernels()
