"""A server whose answers are the same each time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live.fork_server import ForkedServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.live.server import Server


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Room for two."""
    with ForkedServer(tmp_path_factory.mktemp("server"), "--slots", "2", "--dtype", "float32") as server:
        yield server
