"""An index of packages that is a test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.models.wheels import pip_settings


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which pip looks for packages, and nowhere else."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name, value in pip_settings(folder).items():
        monkeypatch.setenv(name, value)
    return folder
