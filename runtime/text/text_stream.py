"""Incremental detokenising: token ids in, text out, up to a stop string.

Three pure parts, none of which looks back further than it must, so the cost of a token does not depend on how many came
before it:

    Detokenizer   ids -> text; holds back an unfinished character (at most 3 bytes)
    StopMatcher   text -> text up to the first stop string (`stop_strings.py`); holds back what may begin one
    TextStream    both of them, which is what a request uses
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.text.stop_strings import NO_STOPS, StopAutomaton, StopMatcher

if TYPE_CHECKING:
    from collections.abc import Collection

    from runtime.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The text that one token adds; `stopped` says that a stop string is complete, and no more text will come."""

    text: str
    stopped: bool


class TextStream:
    """The text of one generation.

    Args:
        tokenizer: the model's.
        stop: the request's stop strings, shared with its other texts.
        continues: the text goes on where a prompt ended (a completion), so a first token " world" keeps its space.
            Otherwise the first token begins a text (an answer in a chat), and the pieces together are what
            `Tokenizer.decode` makes of all ids.
        visible: special tokens that are spelled out, for whoever reads the text for a format's markers.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        stop: StopAutomaton = NO_STOPS,
        *,
        continues: bool = False,
        visible: Collection[int] = frozenset(),
    ) -> None:
        self._detokenizer = Detokenizer(tokenizer, continues=continues, visible=visible)
        self._matcher = StopMatcher(stop)

    @property
    def stop_found(self) -> str | None:
        """The stop string that ended the text; None while none did."""
        return self._matcher.found

    def push(self, token_id: int, *, match_stops: bool = True) -> TextDelta:
        """Add one token; with `match_stops`, a stop string that it completes ends the text.

        Tokens after a stop change nothing: a verify step may accept some.
        """
        text = self._matcher.push(self._detokenizer.push(token_id), match_stops=match_stops)
        return TextDelta(text, self._matcher.found is not None)

    def flush(self) -> str:
        """Return the text still held back, once the generation has ended some other way (empty after a stop)."""
        return self._matcher.push(self._detokenizer.flush()) + self._matcher.flush()


class Detokenizer:
    """The text of a growing list of ids.  Hidden special tokens, and ids beyond the vocabulary, add nothing.

    It is `Tokenizer.decode`'s but for one case: a run of byte-fallback tokens with whole characters *and* broken ones.
    The library calls all of the run broken (in Llama 2 even the newline before an emoji that was cut off, for a newline
    is a byte token); here the whole characters stay.

    Args:
        tokenizer: the model's.
        continues, visible: as of `TextStream`.
    """

    def __init__(
        self, tokenizer: Tokenizer, *, continues: bool = False, visible: Collection[int] = frozenset()
    ) -> None:
        rules = tokenizer.rules
        self._tokenizer = tokenizer
        self._hidden = tokenizer.special_ids.difference(visible) if visible else tokenizer.special_ids
        self._utf8 = codecs.getincrementaldecoder("utf-8")(rules.errors)
        self._begun = continues
        self._strip = rules.strip
        self._strip_left = 0 if continues else rules.strip_count

    def push(self, token_id: int) -> str:
        """Return the text that this token completes: often a word, empty within a character."""
        tokenizer = self._tokenizer
        if token_id in self._hidden:
            return ""
        piece = tokenizer.token_bytes(token_id)
        if not self._begun and piece:
            self._begun = True
            piece = tokenizer.first_bytes(token_id)
        text = self._utf8.decode(piece)
        return self._without_lead(text) if self._strip_left else text

    def flush(self) -> str:
        """Return an unfinished character at the end as U+FFFD."""
        text = self._utf8.decode(b"", final=True)
        return self._without_lead(text) if self._strip_left else text

    def _without_lead(self, text: str) -> str:
        while self._strip_left and text.startswith(self._strip):
            text = text[1:]
            self._strip_left -= 1
        if text:
            self._strip_left = 0
        return text
