"""Accounting of what readers have not taken yet: who holds how much, and who is cut when it is too much.

No slot waits for a reader (C6), so what it has not taken waits in memory: the events of a stream, or an answer that is
gathered to be sent whole.  Each such place has a `Backlog` with the engine's one `Unread`.  The bound is on what is
held and not on what a request may ask for: `max_tokens` is seldom reached, and a reader who keeps up holds next to
nothing, however much it asked for.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.common.units import KIB, format_size
from runtime.errors import AnswersUnread, AnswerTooLarge

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from runtime.errors import CedeError

logger = logging.getLogger("cede.engine")

BEHIND = 64 * KIB
"""Bytes: a reader who leaves less than that, about one write, keeps up."""


@dataclass(frozen=True, slots=True)
class UnreadStatistics:
    """Answers that wait for their readers.

    Attributes:
        budget: the most bytes; None for no bound.
        readers: for whom something waits.
        cut: readers that were given up so far, as they left too much unread.
    """

    bytes: int
    budget: int | None
    readers: int
    cut: int


class Unread:
    """The backlogs that hold something.  A backlog that holds nothing is not known here, so none is left behind.

    Args:
        budget: bytes, of all backlogs; None for no bound.
        each: bytes, of one backlog; None for no bound.
    """

    def __init__(self, budget: int | None = None, each: int | None = None) -> None:
        self._budget = budget
        self._each = each
        self._total = 0
        self._cut = 0
        self._holding: dict[Backlog, None] = {}  # in the order in which they began to hold something

    def backlog(self, name: str, *, gathering: bool = False, request_id: str | None = None) -> Backlog:
        """A fresh one, which holds nothing.

        Args:
            name: for the log.
            gathering: the reader is owed nothing before the answer is whole, and so cannot be behind.
            request_id: of the request that it belongs to, for the log: whoever cuts it may be at another one.
        """
        return Backlog(self, name, gathering, request_id)

    def statistics(self) -> UnreadStatistics:
        """Return what is held now."""
        return UnreadStatistics(self._total, self._budget, len(self._holding), self._cut)

    def check_integrity(self) -> None:
        """Raise AssertionError if the sum is not that of the backlogs."""
        assert self._total == sum(backlog.held for backlog in self._holding)
        assert all(backlog.held > 0 for backlog in self._holding)

    def set_held(self, backlog: Backlog, size: int) -> None:
        """A backlog's new figure; for the backlog.  Where it is too much, who holds most is cut, in this very call."""
        self._total += size - backlog.held
        backlog.held = size
        if size:
            self._holding[backlog] = None
        else:
            self._holding.pop(backlog, None)
        if self._each is not None and size > self._each:
            self._give_up(backlog, AnswerTooLarge(_too_large(self._each)))
        while self._total > (math.inf if self._budget is None else self._budget):
            # Of several that hold the same, the first.
            most = max(self._holding, key=lambda other: (other.is_behind, other.held))
            self._give_up(most, AnswersUnread(_too_many(self._budget or 0)))

    def _give_up(self, backlog: Backlog, error: AnswersUnread | AnswerTooLarge) -> None:
        logger.warning(
            "%s: cut, with %s that its reader had not taken",
            backlog.name,
            format_size(backlog.held),
            extra={"request_id": backlog.request_id},
        )
        self._cut += 1
        backlog.cut(error)


class Backlog:
    """The bytes that wait in one place for one reader.  A scope: what it holds at the end is let go.

    Attributes:
        held: bytes.
        error: why the reader was cut; None while it was not.  From then on this backlog holds nothing.
        gathering: see `Unread.backlog`; to be set to False once the reader may read.
        on_cut: called with the reason: lets go what is held, and sees to it that the reader is told.
    """

    def __init__(self, ledger: Unread, name: str, gathering: bool, request_id: str | None = None) -> None:
        self.name = name
        self.request_id = request_id
        self.held = 0
        self.error: AnswersUnread | AnswerTooLarge | None = None
        self.gathering = gathering
        self.on_cut: Callable[[CedeError], None] | None = None
        self._ledger = ledger
        self._closed = False

    def __enter__(self) -> Self:
        """Begin the scope."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Let go what is held."""
        self.close()

    @property
    def is_behind(self) -> bool:
        """Return whether more waits than a reader leaves who keeps up.  Such readers are cut before all others."""
        return not self.gathering and self.held > BEHIND

    def set_size(self, size: int) -> None:
        """So many bytes wait now.  Whoever holds too much is cut, and that may be this one: see `error`."""
        if not self._closed:
            self._ledger.set_held(self, size)

    def check(self) -> None:
        """Raise the CedeError that the reader was cut with, if it was.

        It is a fresh one: an error that was raised refers, by its traceback, to all that was there, and kept here it
        would keep that.
        """
        if self.error is not None:
            raise type(self.error)(str(self.error))

    def cut(self, error: AnswersUnread | AnswerTooLarge) -> None:
        """Give the reader up; for the ledger."""
        let_go = self.on_cut
        self.error = error
        self.close()
        if let_go is not None:
            let_go(error)

    def close(self) -> None:
        """Nothing waits here any more, and nothing will."""
        self.set_size(0)
        self._closed = True
        self.on_cut = None  # which refers to what was held


def _too_large(most: int) -> str:
    return (
        f"The answer grew beyond {format_size(most)}, the most that is kept for one reader: "
        "ask for fewer tokens, choices or log-probabilities, or read a stream of them faster."
    )


def _too_many(most: int) -> str:
    return f"More than {format_size(most)} of answers wait to be read, and this one's reader was behind most."
