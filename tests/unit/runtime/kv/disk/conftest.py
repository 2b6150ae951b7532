"""Shared by the tests of KV on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.kv.disk.files import write_temporary
from tests.unit.runtime.kv.disk.gates import Gate


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    """A descriptor of the test's folder."""
    file = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield file
    os.close(file)


@pytest.fixture
def writing(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Before the contents of a file are written."""
    gate = Gate(write_temporary)
    monkeypatch.setattr("runtime.kv.disk.blocks.write_temporary", gate)
    return gate
