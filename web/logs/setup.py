"""Where the log goes, from which level on, and in which format."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from web.logs.formats import json_formatter, text_formatter

if TYPE_CHECKING:
    from collections.abc import Mapping


def log_to_stderr(level: str, log_format: str, environment: Mapping[str, str]) -> None:
    """Log to the standard error: cede's own records from `level` up, all others, and warnings, from warnings up.

    Args:
        level: `debug`, `info`, `warning` or `error`.
        log_format: `text`, `json`, or `auto`: text on a terminal, else JSON.
        environment: may ask for no colours (https://no-color.org).
    """
    handler = logging.StreamHandler()
    handler.setFormatter(choose_formatter(log_format, environment, on_terminal=sys.stderr.isatty()))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.captureWarnings(True)
    logging.getLogger("cede").setLevel(level.upper())


def choose_formatter(log_format: str, environment: Mapping[str, str], *, on_terminal: bool) -> logging.Formatter:
    """Return the formatter that was asked for, with colours only for a terminal that can show them."""
    if log_format == "json" or (log_format == "auto" and not on_terminal):
        return json_formatter()
    colours = on_terminal and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
    return text_formatter(on_terminal=on_terminal, colours=colours)
