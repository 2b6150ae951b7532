"""An index of packages that is a test's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.models.wheels import pip_settings

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which pip looks for packages, and nowhere else."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name, value in pip_settings(folder).items():
        monkeypatch.setenv(name, value)
    return folder
