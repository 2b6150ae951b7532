"""Token ids in, text out as it grows: incremental detokenising, and stop strings.

Three pure parts, none of which ever looks back further than it must, so the cost of a token does not depend
on how many came before it:

    Detokenizer   ids -> text; keeps back an unfinished character (at most 3 bytes)
    StopMatcher   text -> text up to the first stop string; keeps back what may be the beginning of one
    TextStream    both of them, which is what a request uses
"""

from __future__ import annotations

import codecs
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from runtime.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class TextDelta:
    """What one token adds.  `stopped`: a stop string is complete, and nothing more will come."""

    text: str
    stopped: bool


class TextStream:
    """The text of one generation.

    `stop`: at most a few strings, none empty (ValueError).  `continues`: the text goes on where a prompt
    ended (a completion), so a first token " world" keeps its space; otherwise the first token begins a text
    (an answer in a chat), and the pieces together are what `Tokenizer.decode` makes of all ids.
    """

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str] = (), *, continues: bool = False) -> None:
        self._detokenizer = Detokenizer(tokenizer, continues=continues)
        self._matcher = StopMatcher(stop)

    @property
    def stop_found(self) -> str | None:
        """The stop string that ended the text."""
        return self._matcher.found

    def push(self, token_id: int, *, looking: bool = True) -> TextDelta:
        """Add one token, `looking` for stops that it completes.

        After a stop it changes nothing: a verify step may accept tokens beyond one.
        """
        text = self._matcher.push(self._detokenizer.push(token_id), looking=looking)
        return TextDelta(text, self._matcher.found is not None)

    def flush(self) -> str:
        """What is still kept back, once the generation has ended some other way (empty after a stop)."""
        return self._matcher.push(self._detokenizer.flush()) + self._matcher.flush()


class Detokenizer:
    """Text of a growing list of ids.  Special tokens, and ids beyond the vocabulary, add nothing.

    Equal to `Tokenizer.decode` of them all but for one case: a run of byte-fallback tokens that holds whole
    characters *and* broken ones.  The library calls all of the run broken (in Llama 2 even the newline before
    an emoji that was cut off, for a newline is a byte token); here the whole characters stay.
    """

    def __init__(self, tokenizer: Tokenizer, *, continues: bool = False) -> None:
        rules = tokenizer.rules
        self._tokenizer = tokenizer
        self._utf8 = codecs.getincrementaldecoder("utf-8")(rules.errors)
        self._begun = continues
        self._strip = rules.strip
        self._strip_left = 0 if continues else rules.strip_count

    def push(self, token_id: int) -> str:
        """The text that this token completes: often a word, empty within a character."""
        tokenizer = self._tokenizer
        if token_id in tokenizer.special_ids:
            return ""
        piece = tokenizer.token_bytes(token_id)
        if not self._begun and piece:
            self._begun = True
            piece = tokenizer.first_bytes(token_id)
        text = self._utf8.decode(piece)
        return self._without_lead(text) if self._strip_left else text

    def flush(self) -> str:
        """An unfinished character at the end, as U+FFFD."""
        text = self._utf8.decode(b"", final=True)
        return self._without_lead(text) if self._strip_left else text

    def _without_lead(self, text: str) -> str:
        while self._strip_left and text.startswith(self._strip):
            text = text[1:]
            self._strip_left -= 1
        if text:
            self._strip_left = 0
        return text


class StopMatcher:
    """Cuts a text at a stop string, however the text is split.

    The first stop to be *complete* wins, and of two that end together the longer: generation ends there, so
    no later one could be told from it.  The automaton (Aho and Corasick 1975) looks at each character once;
    its state is the longest end of the text that begins some stop, which is just what has to be kept back.
    """

    def __init__(self, stops: Iterable[str]) -> None:
        """Raises ValueError for an empty stop."""
        self.found: str | None = None
        self._held = ""  # the text of the current state
        self._state = 0
        # One entry a state; state 0 is "nothing matched".
        self._next: list[dict[str, int]] = [{}]
        self._stop: list[str | None] = [None]  # the longest stop that ends here
        self._fail: list[int] = [0]  # the state of the next shorter end
        for stop in stops:
            if not stop:
                raise ValueError("an empty stop string matches everywhere")
            self._add(stop)
        self._link()

    def push(self, text: str, *, looking: bool = True) -> str:
        """Add text; returns what can be sent now, with `found` set once a stop is complete.

        One that `text` completes while nobody is `looking` is text like any other, and may begin the next.
        """
        if self.found is not None:
            return ""
        if not self._next[0]:
            return text
        kept = len(self._held)
        self._held += text
        for position, char in enumerate(text, start=kept + 1):
            self._advance(char)
            stop = self._stop[self._state]
            if stop is not None and looking:
                self.found = stop
                return self._release(position - len(stop), keep="")
        cut = len(self._held) - self._depth[self._state]
        return self._release(cut, keep=self._held[cut:])

    def flush(self) -> str:
        """The text kept back; the next text begins afresh."""
        self._state = 0
        return self._release(len(self._held), keep="")

    def _release(self, cut: int, *, keep: str) -> str:
        ready, self._held = self._held[:cut], keep
        return ready

    def _advance(self, char: str) -> None:
        state = self._state
        while state and char not in self._next[state]:
            state = self._fail[state]
        self._state = self._next[state].get(char, 0)

    def _add(self, stop: str) -> None:
        state = 0
        for char in stop:
            if char not in self._next[state]:
                self._next[state][char] = len(self._next)
                self._next.append({})
                self._stop.append(None)
                self._fail.append(0)
            state = self._next[state][char]
        self._stop[state] = stop

    def _link(self) -> None:
        """Breadth first, so that a state's shorter ends are linked before it."""
        self._depth = [0] * len(self._next)
        queue = deque([0])
        while queue:
            parent = queue.popleft()
            for char, state in self._next[parent].items():
                self._depth[state] = self._depth[parent] + 1
                if parent:
                    self._state = self._fail[parent]
                    self._advance(char)
                    self._fail[state] = self._state
                self._stop[state] = self._stop[state] or self._stop[self._fail[state]]
                queue.append(state)
        self._state = 0
