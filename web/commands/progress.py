"""Progress of a download: bars on a terminal, plain lines elsewhere; on the standard error."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from web.process.streams import say

if TYPE_CHECKING:
    from click._termui_impl import ProgressBar


class DownloadProgress:
    """Shows on the standard error what is downloaded, unpacked and verified.

    Attributes:
        terminal: whether it is a terminal.
    """

    def __init__(self) -> None:
        self.terminal = sys.stderr.isatty()
        self._what = ""
        self._bar: ProgressBar[int] | None = None

    def say(self, line: str) -> None:
        """Write a line."""
        say(line, err=True)

    def advance(self, what: str, done: int, total: int) -> None:
        """Draw how far a piece of work is; without a terminal, say once that it has begun."""
        if what != self._what:
            self._what, self._bar = what, None
            if self.terminal:
                self._bar = click.progressbar(length=total, label=what, file=sys.stderr)
            else:
                self.say(what)
        if self._bar is not None:
            self._bar.update(done - self._bar.pos)
            if done >= total:
                self._bar.render_finish()
