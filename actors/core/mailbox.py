"""The slot manager's mailbox."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import trio

from actors.core.commands import Demote, Enqueue, Withdraw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.core.commands import Command, QueueCommand, SlotCommand


class Mailbox:
    """Commands in the order in which they came, in two lanes.

    Those that concern the queue alone are served also while a step runs; those that concern slots wait until it ends.
    """

    def __init__(self) -> None:
        """Begin empty."""
        self._for_queue: deque[QueueCommand] = deque()
        self._for_slots: deque[SlotCommand] = deque()
        self._any_mail = trio.Event()
        self._queue_mail = trio.Event()
        self._posted = 0  # commands, ever
        self._refuse: Callable[[Command], None] | None = None  # set once it is closed

    @property
    def is_closed(self) -> bool:
        """Return whether nobody reads it any more."""
        return self._refuse is not None

    def __len__(self) -> int:
        """Return how many commands are unread."""
        return len(self._for_queue) + len(self._for_slots)

    def post(self, command: Command) -> None:
        """Put a command behind all others of its lane."""
        self._posted += 1
        if self._refuse is not None:
            self._refuse(command)
        elif isinstance(command, Enqueue | Withdraw | Demote):
            self._for_queue.append(command)
            self._queue_mail.set()
        else:
            self._for_slots.append(command)
        self._any_mail.set()

    def close(self, refuse: Callable[[Command], None]) -> None:
        """Have all that is unread, and all that will still come, answered by `refuse`."""
        self._refuse = refuse
        for command in (*self.take_for_queue(), *self.take_for_slots()):
            refuse(command)

    def take_for_slots(self) -> Iterator[SlotCommand]:
        """Take the commands that concern slots, until none is left."""
        while self._for_slots:
            yield self._for_slots.popleft()

    def take_for_queue(self) -> Iterator[QueueCommand]:
        """Take the commands that concern the queue, until none is left."""
        while self._for_queue:
            yield self._for_queue.popleft()

    def watch(self) -> Callable[[], bool]:
        """Return what says, in any thread, whether all that ever came had been taken by now."""
        taken = self._posted - len(self)
        return lambda: self._posted == taken

    async def wait(self) -> None:
        """Return when there is mail; for one task."""
        if not self:
            self._any_mail = trio.Event()
            await self._any_mail.wait()

    async def wait_for_queue_mail(self) -> None:
        """Return when the next command that concerns the queue comes; for one task."""
        self._queue_mail = trio.Event()
        await self._queue_mail.wait()
