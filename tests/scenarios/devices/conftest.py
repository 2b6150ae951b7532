"""Models of which steps are run."""

from __future__ import annotations

import pytest

from runtime.checkpoint.config import ModelConfig
from runtime.checkpoint.open import open_checkpoint
from runtime.store.resolve import resolve_model
from tests.models.checkpoints import FAMILIES
from tests.scenarios.devices.steps import STEP_FAMILIES


@pytest.fixture(scope="session")
def configs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModelConfig]:
    """Families with all parts, and the embedded model, whose matrices are large enough for four bits."""
    found = {"embedded": open_checkpoint(resolve_model(None)).config}
    for family in STEP_FAMILIES:
        folder = tmp_path_factory.mktemp(family)
        FAMILIES[family](folder)
        found[family] = open_checkpoint(folder).config
    return found
