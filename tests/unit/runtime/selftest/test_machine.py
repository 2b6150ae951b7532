"""What the machine is, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.selftest import machine

if TYPE_CHECKING:
    import pytest


def test_a_library_that_is_not_installed_is_said_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """As cede is not, where it runs from a checkout."""
    monkeypatch.setattr(machine, "LIBRARIES", ("trio", "no-such-library"))
    facts = machine.describe_machine()
    assert facts["no-such-library"] == "not installed"
    assert facts["trio"][0].isdigit()
