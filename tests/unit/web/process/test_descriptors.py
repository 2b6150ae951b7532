"""As many connections as there are file descriptors for."""

from __future__ import annotations

import resource

import pytest

from web.process.descriptors import OTHER_DESCRIPTORS, fit_descriptors
from web.process.limits import Limits


class System:
    """A process's limits; `most` is what it may really have."""

    def __init__(self, soft: int, hard: int, most: int) -> None:
        self.limits = (soft, hard)
        self._most = most

    def getrlimit(self, _which: int) -> tuple[int, int]:
        """Return the limits."""
        return self.limits

    def setrlimit(self, _which: int, limits: tuple[int, int]) -> None:
        """Set the limits, up to what this system allows."""
        if limits[0] > self._most:
            raise ValueError("current limit exceeds maximum limit")
        self.limits = limits


@pytest.mark.parametrize(
    ("soft", "hard", "most", "connections"),
    [
        (1024, 4096, 4096, 512),  # enough
        (256, resource.RLIM_INFINITY, 10240, 512),  # a Mac: asked for, and given
        (256, 512, 512, 512 - OTHER_DESCRIPTORS),
        (256, resource.RLIM_INFINITY, 256, 256 - OTHER_DESCRIPTORS),
        (64, 64, 64, 1),
    ],
)
def test_connections_fit(monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, most: int, connections: int) -> None:
    system = System(soft, hard, most)
    monkeypatch.setattr(resource, "getrlimit", system.getrlimit)
    monkeypatch.setattr(resource, "setrlimit", system.setrlimit)
    assert fit_descriptors(Limits(connections=512)).connections == connections
    assert system.limits[0] >= min(soft, connections + OTHER_DESCRIPTORS)


def test_a_connection_may_take_several(monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(256, 1024, 1024)
    monkeypatch.setattr(resource, "getrlimit", system.getrlimit)
    monkeypatch.setattr(resource, "setrlimit", system.setrlimit)
    assert fit_descriptors(Limits(connections=512), 4).connections == (1024 - OTHER_DESCRIPTORS) // 4
