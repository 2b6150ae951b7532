"""Progress of a download, for whoever is told."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Shows a download to whoever waits for it.

    Attributes:
        terminal: whether the standard error is a terminal on which other programs may draw their own bars.
    """

    @property
    def terminal(self) -> bool:
        """Return whether the standard error is a terminal."""

    def say(self, line: str) -> None:
        """Take a line about what happens now."""

    def advance(self, what: str, done: int, total: int) -> None:
        """Take how many bytes of a piece of work are done, of how many."""


class Silent:
    """Shows nothing."""

    terminal = False

    def say(self, line: str) -> None:
        """Drop a line."""

    def advance(self, what: str, done: int, total: int) -> None:
        """Drop a figure."""


SILENT = Silent()
