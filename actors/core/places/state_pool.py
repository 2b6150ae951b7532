"""Buffers of states, by their numbers, and how many name each.

A *state* is what the recurrent layers of a model have made of a sequence's first tokens.  It cannot be trimmed as KV
can, so it is never changed: a step reads one buffer and writes others, and what becomes of it all is a matter of who
names which buffer.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# Buffers that a step may write for one sequence: at the end of a chunk of a prompt and at what is kept inside it
# (`actors.scheduling.step_planner`), or in turns in a burst.
SPARE = 2
MOST_OF_CHUNK = 4


def least_buffers(slots: int) -> int:
    """Return how many buffers so many sequences need at least: for the state that each goes on from, and for a step's.

    What there is beyond keeps states of prefixes.
    """
    return slots * (1 + MOST_OF_CHUNK)


def most_of_round(buffers: int, slots: int) -> int:
    """Return how many states each of so many sequences may leave in a verification of drafts, with so many buffers.

    That leaves three in four of the buffers that are there for snapshots.
    """
    return MOST_OF_CHUNK + (buffers - least_buffers(slots)) // (4 * slots)


def kept_drafts(drafts: int, states: int) -> list[int]:
    """Return the numbers of accepted drafts behind which a verification leaves a state, where it may leave so many.

    None and all are among them.  Where there are more between than it may leave, these are spread evenly: of what is
    accepted, the drafts behind the last state are read again, with the token that follows them.
    """
    gaps = min(drafts, states - 1)
    return [drafts * i // gaps for i in range(gaps)] + [drafts]


class StatePool:
    """Counts of names.  A buffer that nobody names is free, and only such a one may be written.

    Args:
        buffers: how many there are, numbered from 0.
    """

    def __init__(self, buffers: int) -> None:
        self._names = [0] * buffers
        self._free = dict.fromkeys(range(buffers))  # those that came free first are the first

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._names)

    @property
    def free(self) -> Iterable[int]:
        """The buffers that nobody names."""
        return self._free

    @property
    def num_free(self) -> int:
        """Return how many these are."""
        return len(self._free)

    def name(self, buffer: int) -> None:
        """Name a buffer, once more or for the first time."""
        if not self._names[buffer]:
            del self._free[buffer]
        self._names[buffer] += 1

    def drop(self, buffer: int) -> None:
        """Take a name back."""
        assert self._names[buffer], f"buffer {buffer} has no name to be taken back"
        self._names[buffer] -= 1
        if not self._names[buffer]:
            self._free[buffer] = None

    def check_integrity(self, named: Iterable[int]) -> None:
        """Raise AssertionError if these are not all the names there are."""
        counts = Counter(named)
        assert self._names == [counts[buffer] for buffer in range(len(self))], f"{self._names} names, not {counts}"
        assert set(self._free) == {buffer for buffer, names in enumerate(self._names) if not names}, "free, and named"
