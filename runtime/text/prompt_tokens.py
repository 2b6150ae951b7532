"""Encoding a client's text at a cost that the context bounds, whatever the text.

A text of many megabytes takes seconds to encode, and half a kilobyte of memory for each token.  One that cannot fit is
refused at less cost: by its length, or after its first pieces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


class Encoder(Protocol):
    """Interface of `runtime.text.tokenizer.Tokenizer`, whose attribute and method these are."""

    longest_token: int

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Return the token ids of `text`."""


class TooManyTokens(Exception):
    """The text has more tokens than were allowed, and was not encoded to its end."""


def encode_within(tokenizer: Encoder, text: str, max_tokens: int, *, add_special_tokens: bool = True) -> list[int]:
    """Encode a text that has at most about `max_tokens` tokens; a few more may come back, but never a part of them.

    A text is refused for its length if `max_tokens` tokens of the longest kind could not spell it.  Any other that is
    long is first encoded piece by piece, until the count alone is too large.  A cut between two pieces splits at most
    one token and changes how its neighbourhood falls into tokens: by as many tokens as the longest has characters, at
    the worst that was seen (a special token in two).  Twice that is taken off for each cut; a property test looks for
    texts that need more.

    Raises:
        TooManyTokens: there are certainly more than `max_tokens`.
        RequestError: as `Tokenizer.encode`.
    """
    longest = tokenizer.longest_token
    if len(text) > max_tokens * longest:
        raise TooManyTokens
    certain = 0  # tokens that the text has at least
    for piece in _pieces(text, 2 * max_tokens + 16 * longest):
        certain += max(0, len(tokenizer.encode(piece, add_special_tokens=False)) - 2 * longest)
        if certain > max_tokens:
            raise TooManyTokens
    return tokenizer.encode(text, add_special_tokens=add_special_tokens)


def encode_end(tokenizer: Encoder, text: str, most: int) -> list[int]:
    """Encode the end of a text: its last tokens, at most so many, without special ones around them.

    No more of the text is encoded than that takes.  Where its beginning is left out, what is cut in two lies as far
    before the tokens that count as `encode_within` allows for.

    Raises:
        RequestError: as `Tokenizer.encode`.
    """
    longest = tokenizer.longest_token
    length = 8 * most + 16 * longest
    while True:
        piece = text[-length:]
        ids = tokenizer.encode(piece, add_special_tokens=False)
        if len(piece) == len(text) or len(ids) >= most + 2 * longest:
            return ids[max(0, len(ids) - most) :]
        length *= 2


def _pieces(text: str, length: int) -> Iterator[str]:
    """Cut the text up if it is longer than one piece; nothing is yielded for a shorter one."""
    if len(text) > length:
        for start in range(0, len(text), length):
            yield text[start : start + length]
