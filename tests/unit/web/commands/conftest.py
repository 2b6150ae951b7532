"""No variable of cede's but those that a test sets, and places of models that are its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from huggingface_hub import constants

from tests.unit.runtime.store.packages.conftest import index
from web.commands.options.definitions import PREFIX

__all__ = ["index"]


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have set some."""
    for name in list(os.environ):
        if name.startswith(PREFIX):
            monkeypatch.delenv(name)


@pytest.fixture
def models_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Cede's folder, by its variable; the hub's cache is empty."""
    folder = tmp_path / "models"
    monkeypatch.setenv("CEDE_MODELS_DIR", str(folder))
    (tmp_path / "hub").mkdir()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return folder
