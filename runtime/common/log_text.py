"""Text from outside as it may be shown: it can neither begin a line nor steer a terminal.

Messages show a client's text as a `literal`, and any other value as `quoted`.  What leaves the process passes a bound
all the same: `web.observability.logs` makes each record one line, whatever is in it, and errors are `shortened` where
they are told.
"""

from __future__ import annotations

MAX_LITERAL = 200  # characters of a text from outside
MAX_MESSAGE = 2000  # characters of an error, whatever it quotes


def literal(text: object, limit: int = MAX_LITERAL) -> str:
    """Quote `text` on one line, in printable characters only, cut after `limit` of its own."""
    shown = str(text)
    return repr(shown) if len(shown) <= limit else f"{shown[:limit]!r}..."


def quoted(value: object, limit: int = MAX_LITERAL) -> str:
    """Write a value that somebody gave as Python writes it, in printable characters, with `limit` of them at most."""
    return shortened(repr(value), limit)


def shortened(text: str, limit: int = MAX_MESSAGE) -> str:
    """Leave out the middle of what is longer: a message begins with where, and ends with what is wanted."""
    if len(text) <= limit:
        return text
    tail = limit // 3
    return f"{text[: limit - tail - 3]}...{text[-tail:]}"


def printable(text: str) -> str:
    """Escape each character of `text` that is not printable, line ends among them."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
