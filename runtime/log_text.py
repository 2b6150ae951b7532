"""Log lines that nobody can forge: what others wrote is shown so that it cannot begin a line, or steer a terminal."""

from __future__ import annotations

import logging

SHOWN = 200  # characters of a text from outside
LONGEST_LINE = 4000  # characters


def literal(text: object, most: int = SHOWN) -> str:
    """`text` in quotes, on one line, of printable characters only, and cut after `most` of them."""
    shown = str(text)
    return repr(shown) if len(shown) <= most else f"{shown[:most]!r}..."


def printable(text: str) -> str:
    """`text` with each character escaped that is not printable, line ends among them."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


class OneLineFormatter(logging.Formatter):
    """Makes a record one line, however it was made; the lines of a traceback are marked as such.

    Whoever logs a client's text shows it as a `literal`; this is for texts of libraries that quote clients.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        line = printable(super().formatMessage(record))
        return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}..."

    def formatException(self, ei: logging._SysExcInfoType) -> str:  # noqa: N802 - logging's name
        return "\n".join(f"    | {printable(line)}" for line in super().formatException(ei).split("\n"))


def log_to_stderr(level: str) -> None:
    """Have cede's loggers write to the standard error from `level` up, and everybody else's from warnings up."""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLineFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("cede").setLevel(level.upper())
