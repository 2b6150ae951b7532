"""A server whose answers are the same each time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.fork_server import ForkedServer


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedServer]:
    """Room for two."""
    flags = ("--slots", "2", "--dtype", "float32", "--hang-timeout", "0")
    with ForkedServer(tmp_path_factory.mktemp("server"), *flags) as server:
        yield server
