"""A one-shot answer from one task to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import outcome
import trio

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Reply(Generic[T]):
    """An answer that one task gives and one task waits for.  It is kept if it comes before anyone waits."""

    __slots__ = ("_answer", "_task")

    def __init__(self) -> None:
        """Begin without an answer."""
        self._answer: outcome.Outcome[T] | None = None
        self._task: trio.lowlevel.Task | None = None

    @property
    def is_set(self) -> bool:
        """Return whether the answer has come."""
        return self._answer is not None

    @property
    def value(self) -> T:
        """The answer, which has come and is no error."""
        assert isinstance(self._answer, outcome.Value), self._answer
        value: T = self._answer.value
        return value

    def set(self, answer: outcome.Outcome[T]) -> None:
        """Answer; the first answer is the one that counts."""
        if self._answer is None:
            self._answer = answer
            if self._task is not None:
                task, self._task = self._task, None
                trio.lowlevel.reschedule(task)

    async def wait(self, on_cancel: Callable[[], None] = lambda: None) -> T:
        """Return the answer, or raise it; at once, without a checkpoint, if it is there.

        Args:
            on_cancel: runs in the very moment in which the waiter is cancelled.
        """
        if self._answer is None:
            self._task = trio.lowlevel.current_task()

            def abort(_: object) -> trio.lowlevel.Abort:
                self._task = None
                on_cancel()
                return trio.lowlevel.Abort.SUCCEEDED

            await trio.lowlevel.wait_task_rescheduled(abort)
        assert self._answer is not None
        return self._answer.unwrap()
