"""Log lines that nobody can forge: text from outside can neither begin a line nor steer a terminal."""

from __future__ import annotations

import logging

MAX_LITERAL = 200  # characters of a text from outside
MAX_LINE = 4000  # characters


def literal(text: object, limit: int = MAX_LITERAL) -> str:
    """Quote `text` on one line, in printable characters only, cut after `limit` of its own."""
    shown = str(text)
    return repr(shown) if len(shown) <= limit else f"{shown[:limit]!r}..."


def printable(text: str) -> str:
    """Escape each character of `text` that is not printable, line ends among them."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


class OneLineFormatter(logging.Formatter):
    """Makes every record one line, and marks the lines of a traceback as such.

    cede's own records show a client's text as a `literal`; this is for those of libraries that quote clients.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Format a record but its traceback, on one line of bounded length."""
        line = printable(super().formatMessage(record))
        return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}..."

    def formatException(self, ei: logging._SysExcInfoType) -> str:  # noqa: N802 - logging's name
        """Format a traceback, each line marked."""
        return "\n".join(f"    | {printable(line)}" for line in super().formatException(ei).split("\n"))


def log_to_stderr(level: str) -> None:
    """Log to the standard error: cede's own records from `level` up, all others from warnings up."""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLineFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("cede").setLevel(level.upper())
