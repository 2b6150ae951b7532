"""Stops the disk tier's writer in the middle of its work."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tests.fakes.kv_blocks import (
    LONG,
)


class Gate:
    """Stops the writer at one call, until it is opened."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self.arrived, self.open = threading.Event(), threading.Event()

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Wait until it is opened, and go on."""
        self.arrived.set()
        assert self.open.wait(LONG)
        return self._function(*args, **kwargs)
