"""Stop strings: an immutable automaton for a request, and a matcher for each of its texts."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class StopAutomaton:
    """An automaton that recognises stop strings, however a text is split (Aho and Corasick 1975).

    A state is the longest end of the text that begins some stop; state 0 is "nothing matched".  Building it takes a
    dictionary for each character of the stops, so it is built once for a request.  It never changes after that: the
    texts of all choices, and any thread, may share it.

    Args:
        stops: the stop strings.
        kept: the one that ends a text is part of it.

    Attributes:
        stops: the stop strings.
        kept: whether the one that ends a text is part of it.
        ended: of each state, the longest stop that ends there; None where none does.
        depth: of each state, the length of its text.

    Raises:
        ValueError: a stop is empty.
    """

    __slots__ = ("_fail", "_next", "depth", "ended", "kept", "stops")

    def __init__(self, stops: Iterable[str] = (), *, kept: bool = False) -> None:
        self.stops = tuple(stops)
        self.kept = kept
        self._next: list[dict[str, int]] = [{}]
        self._fail: list[int] = [0]  # of each state, the state of the next shorter end
        self.ended: list[str | None] = [None]
        self.depth: list[int] = [0]
        for stop in self.stops:
            if not stop:
                raise ValueError("an empty stop string matches everywhere")
            self._add(stop)
        self._link()

    def __bool__(self) -> bool:
        """Tell whether there are any stops."""
        return bool(self.stops)

    def advance(self, state: int, char: str) -> int:
        """Return the state after one more character."""
        while state and char not in self._next[state]:
            state = self._fail[state]
        return self._next[state].get(char, 0)

    def _add(self, stop: str) -> None:
        state = 0
        for depth, char in enumerate(stop, start=1):
            known = self._next[state].get(char)
            if known is None:
                known = self._next[state][char] = len(self._next)
                self._next.append({})
                self.ended.append(None)
                self.depth.append(depth)
            state = known
        self.ended[state] = stop

    def _link(self) -> None:
        """Link each state to that of its next shorter end; breadth first, for shorter ends must be linked before."""
        self._fail = [0] * len(self._next)
        queue = deque(self._next[0].values())
        while queue:
            parent = queue.popleft()
            for char, state in self._next[parent].items():
                shorter = self._fail[state] = self.advance(self._fail[parent], char)
                if self.ended[state] is None:
                    self.ended[state] = self.ended[shorter]
                queue.append(state)


NO_STOPS = StopAutomaton()


class StopMatcher:
    """Cuts a text at a stop string, or behind it, however the text is split.

    The first stop to be *complete* wins, and of two that end together the longer: generation ends there, so no later
    one could be told from it.  Each character is looked at once, and the text of the automaton's state is all that is
    held back.

    Attributes:
        found: the stop that ended the text; None while none did.
    """

    __slots__ = ("_automaton", "_held", "_state", "found")

    def __init__(self, automaton: StopAutomaton) -> None:
        self.found: str | None = None
        self._automaton = automaton
        self._held = ""  # the text of the current state
        self._state = 0

    def push(self, text: str, *, match_stops: bool = True) -> str:
        """Add text, and return what can be sent now; `found` is set once a stop is complete.

        Without `match_stops` a stop that `text` completes is text like any other, and may begin the next.
        """
        if self.found is not None:
            return ""
        automaton = self._automaton
        if not automaton:
            return text
        held = len(self._held)
        self._held += text
        for position, char in enumerate(text, start=held + 1):
            self._state = automaton.advance(self._state, char)
            stop = automaton.ended[self._state]
            if stop is not None and match_stops:
                self.found = stop
                return self._release(position if automaton.kept else position - len(stop), hold="")
        cut = len(self._held) - automaton.depth[self._state]
        return self._release(cut, hold=self._held[cut:])

    def flush(self) -> str:
        """Return the text held back; the next text begins afresh."""
        self._state = 0
        return self._release(len(self._held), hold="")

    def _release(self, cut: int, *, hold: str) -> str:
        ready, self._held = self._held[:cut], hold
        return ready
