"""An owner on whose behalf a test may change state while an engine runs, for what no client could bring about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from runtime.common.ownership import TaskOwner


class LendableOwner(TaskOwner):
    """A `TaskOwner` that a test may stand in for."""

    __slots__ = ("_borrowers",)

    def __init__(self) -> None:
        super().__init__()
        self._borrowers = 0

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """Let anybody change the state in this scope, in which nothing is awaited."""
        self._borrowers += 1
        try:
            yield
        finally:
            self._borrowers -= 1

    def check(self) -> None:
        """Raise as the real one does, unless it is lent."""
        if not self._borrowers:
            super().check()
