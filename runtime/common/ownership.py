"""Ownership of state: the one task that may change it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Iterator


class NotTheOwner(Exception):
    """A bug in the engine: state was changed by a task that does not own it."""


class TaskOwner:
    """Names the task that may change what this owner was given to.

    Each class with such state calls `check` first in every method that changes it.  Until `claim` is entered anybody
    may change it, so that it can be set up.
    """

    __slots__ = ("_task",)

    def __init__(self) -> None:
        """Begin without an owner."""
        self._task: trio.lowlevel.Task | None = None

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Own the state by the current task while the scope lasts.

        Raises:
            NotTheOwner: another task owns it already.
        """
        if self._task is not None:
            raise NotTheOwner(f"{_name()} claims what {self._task.name} owns")
        self._task = trio.lowlevel.current_task()
        try:
            yield
        finally:
            self._task = None

    @contextmanager
    def lend(self, task: trio.lowlevel.Task) -> Iterator[None]:
        """Let another task own the state while the scope lasts, in place of the owner.

        Raises:
            NotTheOwner: it is not the current task's to lend.
        """
        self.check()
        lender, self._task = self._task, task
        try:
            yield
        finally:
            self._task = lender

    @property
    def is_current(self) -> bool:
        """Return whether the current task owns the state."""
        try:
            return trio.lowlevel.current_task() is self._task
        except RuntimeError:  # outside of Trio
            return False

    def check(self) -> None:
        """Raise unless the current task is the owner, or nobody is.

        Raises:
            NotTheOwner: it is not.
        """
        if self._task is not None and not self.is_current:
            raise NotTheOwner(f"{_name()} changes what {self._task.name} owns")


def _name() -> str:
    return trio.lowlevel.current_task().name if trio.lowlevel.in_trio_task() else "a thread"
