"""Shared by all tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from tests.live import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

# The models of the tests are tiny: a second thread only costs barriers, and many on a busy machine.
torch.set_num_threads(1)


# Servers in processes of their own, each started when the first test asks for it.


@pytest.fixture(scope="session")
def four_slots() -> Iterator[Server]:
    """Room for four, and prompts read in chunks of 64 tokens."""
    with Server("--slots", "4", "--chunk-tokens", "64") as server:
        yield server


@pytest.fixture(scope="session")
def one_slot() -> Iterator[Server]:
    """Room for one, a long queue, and prompts read in chunks of 64 tokens."""
    with Server("--slots", "1", "--queue", "300", "--chunk-tokens", "64") as server:
        yield server


@pytest.fixture(scope="session")
def hurried() -> Iterator[Server]:
    """Room for one, 16 may wait, and nobody gets more than two seconds; prompts are read slowly."""
    flags = ["--slots", "1", "--queue", "16", "--request-timeout", "2", "--chunk-tokens", "16"]
    with Server(*flags) as server:
        yield server
