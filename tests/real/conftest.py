"""Source of the real models: by their short names, as for any user, into the user's own folder of models."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.errors import CheckpointError
from runtime.store.resolve import resolve_model

OTHER_FILE = "SHA-256"  # in the message for a file that is not the one that was published


def _file(name: str) -> Path:
    """Return the model's file, which is downloaded at the first time."""
    try:
        return resolve_model(name)
    except CheckpointError as error:
        if OTHER_FILE in str(error):
            raise
        pytest.skip(f"needs the model {name}, which is not here and cannot be downloaded now: {error}")


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """SmolLM2 135M Instruct: Llama's architecture, Q4_1 and Q8_0."""
    return _file("smollm2")


@pytest.fixture(scope="session")
def gemma3() -> Path:
    """Gemma 3 270M, a base model: windows, Q4_K, Q5_0, Q6_K and Q8_0."""
    return _file("gemma3-270m")
