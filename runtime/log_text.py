"""Text from outside as it may be shown: it can neither begin a line nor steer a terminal.

Messages show a client's text as a `literal`.  `web.logs` makes each record one line, whatever is in it.
"""

from __future__ import annotations

MAX_LITERAL = 200  # characters of a text from outside


def literal(text: object, limit: int = MAX_LITERAL) -> str:
    """Quote `text` on one line, in printable characters only, cut after `limit` of its own."""
    shown = str(text)
    return repr(shown) if len(shown) <= limit else f"{shown[:limit]!r}..."


def printable(text: str) -> str:
    """Escape each character of `text` that is not printable, line ends among them."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
