"""The two formats of the log, each a formatter for a handler of `logging`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from structlog.contextvars import merge_contextvars
from structlog.dev import BRIGHT, DIM, RED, RESET_ALL, YELLOW, Column, ConsoleRenderer, KeyValueColumnFormatter
from structlog.dev import plain_traceback as plain
from structlog.processors import JSONRenderer, StackInfoRenderer, format_exc_info
from structlog.stdlib import ExtraAdder, ProcessorFormatter

from web.observability.logs.record import columns, describe, escape, time_of_day, well_formed

if TYPE_CHECKING:
    import logging

    from structlog.typing import Processor

LEVEL_STYLES = {"DEBUG": DIM, "WARNING": BRIGHT + YELLOW, "ERROR": BRIGHT + RED, "CRITICAL": BRIGHT + RED}


def text_formatter(*, on_terminal: bool, colours: bool) -> logging.Formatter:
    """Return a formatter for people: `12:00:00.000 INFO    engine  what happened  [request]`, in local time.

    Args:
        on_terminal: without the date.
        colours: of ANSI's escape sequences; they are the only ones that can be in a line.
    """
    steps: list[Processor] = [columns, *([time_of_day] if on_terminal else []), escape]
    return _formatter(*steps, ConsoleRenderer(columns=_columns(colours), exception_formatter=plain))


def json_formatter() -> logging.Formatter:
    """Return a formatter for programs: an object of JSON for each record, in ASCII, and so on one line."""
    return _formatter(well_formed, JSONRenderer(serializer=_to_json))


def _formatter(*processors: Processor) -> logging.Formatter:
    common: list[Processor] = [merge_contextvars, ExtraAdder(), StackInfoRenderer(), format_exc_info]
    return ProcessorFormatter(foreign_pre_chain=common, processors=[describe, *processors])


def _columns(colours: bool) -> list[Column]:
    """Return how each value is shown; `ConsoleRenderer` wants one for all other keys, of which there are none."""
    dim, reset = (DIM, RESET_ALL) if colours else ("", "")

    def show(width: int = 0, style: str = "", around: tuple[str, str] = ("", "")) -> KeyValueColumnFormatter:
        return KeyValueColumnFormatter(None, style, reset, str, width, *around)

    def show_level(key: str, value: object) -> str:
        style = LEVEL_STYLES.get(str(value), "") if colours else ""
        return show(len("WARNING"), style)(key, value)

    return [
        Column("time", show(style=dim)),
        Column("level", show_level),
        Column("part", show(style=dim)),
        Column("logger", show(len("engine"), dim)),
        Column("message", show()),
        Column("request_id", show(style=dim, around=("[", "]"))),
        Column("", show()),
    ]


def _to_json(record: dict[str, Any], **_: object) -> str:
    """Return a line of ASCII, in which every other character, and every one that is not printable, is escaped."""
    return json.dumps(record, allow_nan=False)
