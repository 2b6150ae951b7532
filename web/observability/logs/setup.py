"""Setup of the log: where it goes, from which level on, and in which format."""

from __future__ import annotations

import io
import logging
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING

from web.observability.logs.formats import json_formatter, text_formatter
from web.observability.logs.handler import LineHandler

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TextIO

logger = logging.getLogger("cede.web")


def log_to_stderr(level: str, log_format: str, environment: Mapping[str, str], part: str | None = None) -> LineHandler:
    """Log to the standard error: cede's own records from `level` up, all others, and warnings, from warnings up.

    So does what Python itself writes there: of an exception that ends the process or a thread, or that it ignores.

    Args:
        level: `debug`, `info`, `warning` or `error`.
        log_format: `text`, `json`, or `auto`: text on a terminal, else JSON.
        environment: may ask for no colours (https://no-color.org).
        part: what this process is called in each line, where several write to one place.

    Returns:
        What writes it, and can say something on the standard output.
    """
    handler = LineHandler(log=_descriptor(sys.stderr, 2), output=_descriptor(sys.stdout, 1))
    handler.setFormatter(choose_formatter(log_format, environment, on_terminal=sys.stderr.isatty()))
    if part is not None:
        handler.addFilter(partial(_mark, part))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.captureWarnings(True)
    logging.getLogger("cede").setLevel(level.upper())
    sys.excepthook = lambda *why: logger.critical("an exception ends the process", exc_info=why)
    sys.unraisablehook = _log_ignored
    threading.excepthook = _log_thread
    return handler


def choose_formatter(log_format: str, environment: Mapping[str, str], *, on_terminal: bool) -> logging.Formatter:
    """Return the formatter that was asked for, with colours only for a terminal that can show them."""
    if log_format == "json" or (log_format == "auto" and not on_terminal):
        return json_formatter()
    colours = on_terminal and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
    return text_formatter(on_terminal=on_terminal, colours=colours)


def _descriptor(stream: TextIO, standard: int) -> int:
    """Return a stream's descriptor, or the standard one where it has none, as in a program that calls commands."""
    try:
        return stream.fileno()
    except io.UnsupportedOperation:
        return standard


def _mark(part: str, record: logging.LogRecord) -> bool:
    """Add whose record it is; none is left out."""
    record.__dict__["part"] = part
    return True


def _log_ignored(why: sys.UnraisableHookArgs) -> None:
    logger.error("%s: %r", why.err_msg or "Exception ignored in", why.object, exc_info=why.exc_value)


def _log_thread(why: threading.ExceptHookArgs) -> None:
    logger.error("an exception ends a thread: %s", why.thread and why.thread.name, exc_info=why.exc_value)
