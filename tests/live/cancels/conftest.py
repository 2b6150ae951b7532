"""A neighbour that must notice nothing, and a server whose clients are told soon that they waited in vain."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.cancels.victims import OURS, SOLO
from tests.live.fork_server import ForkedServer
from tests.live.http_client import Http1, completion
from tests.live.server import Server


@pytest.fixture(scope="package")
def solo(running_four_slots: Server) -> list[int]:
    """Return what the neighbour says when it is alone."""
    running_four_slots.wait_idle()
    with Http1(running_four_slots, completion(OURS, SOLO)) as alone:
        return alone.read_all()


@pytest.fixture(scope="package")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedServer]:
    """Room for one; who waits is told soon."""
    flags = ("--slots", "1", "--queue-timeout", "1", "--hang-timeout", "0")
    with ForkedServer(tmp_path_factory.mktemp("server"), *flags) as server:
        yield server


@pytest.fixture
def neighbour(four_slots: Server, solo: list[int]) -> Iterator[Http1]:
    """A stream that decodes all the while, goes on after the test, and has said what it says alone."""
    most = 4000
    with Http1(four_slots, completion(OURS, most)) as stream:
        stream.read_tokens(1)
        yield stream
        ours = four_slots.requests().get(stream.id, {"completion_tokens": most})  # a slow test has met its end
        stream.read_tokens(min(int(ours["completion_tokens"]) + 5, most))
        assert stream.tokens[:SOLO] == solo[: len(stream.tokens)]
    four_slots.wait_idle()
