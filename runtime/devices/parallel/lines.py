"""Messages from rank 0 to the others: pickled messages over a connection to each, in order.

Both ends are processes of one server, which started the others itself; nobody else can write to the connection.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runtime.errors import DeviceLost
from runtime.step.step import CancelMark, Segment

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.connection import Connection

    from runtime.kv.pages import PageTable


# --- messages ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one segment, as `Segment` has them."""

    slot: int
    start: int
    token_ids: tuple[int, ...]
    first: int
    pages: PageTable
    is_cancelled: bool

    @classmethod
    def of(cls, segment: Segment) -> Rows:
        """Return what the other ranks need of a segment."""
        tokens = tuple(segment.token_ids)
        return cls(segment.slot, segment.start, tokens, segment.first, segment.pages, segment.mark.at is not None)

    def segment(self) -> Segment:
        """Return the segment, with a mark of its own, after which no token is drawn."""
        mark = CancelMark()
        if self.is_cancelled:
            mark.set(lambda: 0.0)
        return Segment(self.slot, self.start, self.token_ids, mark, first=self.first, pages=self.pages)


@dataclass(frozen=True, slots=True)
class StepOrder:
    """To a rank: compute a step of these rows.  All other orders are transfers of KV (`runtime.step.transfer`)."""

    rows: tuple[Rows, ...]


# --- lines ------------------------------------------------------------------------------------------------------------


class Line:
    """One end of a connection between rank 0 and another.

    Args:
        connection: whose bytes are this line's alone.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def send(self, message: object) -> None:
        """Send a message.  Raises OSError where the other end is gone."""
        self._connection.send_bytes(pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL))

    def receive(self) -> Any:  # noqa: ANN401  # a message
        """Wait for a message.  Raises EOFError or OSError where the other end is gone."""
        return pickle.loads(self._connection.recv_bytes())

    def close(self) -> None:
        """Close this end."""
        self._connection.close()


class Lines:
    """Rank 0's ends of the lines to all others; used on the device thread only.

    Args:
        lines: to the other ranks, from rank 1 on.
    """

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines

    def tell(self, message: object) -> None:
        """Send a message to all.  Raises DeviceLost where one is gone."""
        self.tell_each([message] * len(self._lines))

    def tell_each(self, messages: Sequence[object]) -> None:
        """Send each its own message, likewise."""
        try:
            for line, message in zip(self._lines, messages, strict=True):
                line.send(message)
        except OSError as error:
            raise DeviceLost(f"another rank is gone: {error}") from error

    def answers(self) -> list[Any]:
        """Wait for a message from each.  Raises DeviceLost where one is gone."""
        try:
            return [line.receive() for line in self._lines]
        except (EOFError, OSError) as error:
            raise DeviceLost(f"another rank is gone: {error}") from error
