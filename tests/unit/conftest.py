"""Shared by the unit tests: the embedded model, loaded as the self-test does."""

from __future__ import annotations

import pytest

from runtime.checkpoint.open import Checkpoint
from runtime.loading.load import describe_model, load_model
from runtime.loading.options import LoadOptions
from runtime.loading.served import ServedModel
from runtime.nn.model import Transformer
from runtime.selftest.parity import Parity
from runtime.store.resolve import resolve_model
from web.selftest import TEXT


@pytest.fixture(scope="session")
def loaded() -> tuple[LoadOptions, Checkpoint, ServedModel]:
    """Options, checkpoint and description of the embedded model."""
    options = LoadOptions(resolve_model(None), slots=4, context=512, device="cpu", dtype="float32", threads=1)
    served, checkpoint = describe_model(options, "embedded")
    return options, checkpoint, served


@pytest.fixture
def model(loaded: tuple[LoadOptions, Checkpoint, ServedModel]) -> Transformer:
    """The embedded model, for one test to change."""
    return load_model(*loaded[:2])


@pytest.fixture
def parity(model: Transformer, loaded: tuple[LoadOptions, Checkpoint, ServedModel]) -> Parity:
    """Return what the self-test compares: that model, and one that nobody changes."""
    options, checkpoint, served = loaded
    return Parity(model, load_model(options, checkpoint), served.tokenizer.encode(TEXT)[:40], 8)
