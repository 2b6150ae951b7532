"""Servers with tiers of KV; those that the whole folder shares last as long as it does."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.live.kv.servers import Starter, ask, cached, tokens
from tests.live.server import COMPLETIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.live.server import Json, Server

    Expected = Callable[[Json, str], list[int]]


@pytest.fixture(scope="package")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starter]:
    """For servers that last as long as the tests of this folder."""
    with ExitStack() as stack:
        yield Starter(tmp_path_factory.mktemp("shared"), stack)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    """For servers that last as long as the test."""
    (tmp_path / "logs").mkdir()
    with ExitStack() as stack:
        yield Starter(tmp_path / "logs", stack)


@pytest.fixture(scope="package")
def expected(shared: Starter) -> Expected:
    """Return what a server without any cache says; asked once for each body."""
    server = shared("--slots", "1", "--kv-ram", "0")
    known: dict[str, list[int]] = {}

    def ask_plainly(body: Json, path: str = COMPLETIONS) -> list[int]:
        key = json.dumps([path, body])
        if key not in known:
            answer = ask(server, body | {"cache_prompt": False}, path)
            assert cached(answer) == 0
            known[key] = tokens(answer)
        return known[key]

    return ask_plainly


@pytest.fixture(scope="package")
def one_with_ram(shared: Starter) -> Server:
    """One slot, and memory."""
    return shared("--slots", "1", "--kv-ram", "64MiB")
