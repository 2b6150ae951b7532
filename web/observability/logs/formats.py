"""The two formats of the log, each a formatter for a handler of `logging`.

A record is made a mapping, step by step, as structlog's processors do it.  Clients are quoted in messages, in
exceptions of libraries, and in figures.  So all that is shown passes one of two steps: `escape` for a terminal,
`well_formed` for JSON.
"""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from structlog.contextvars import merge_contextvars
from structlog.dev import BRIGHT, DIM, RED, RESET_ALL, YELLOW, Column, ConsoleRenderer, KeyValueColumnFormatter
from structlog.dev import plain_traceback as plain
from structlog.processors import JSONRenderer, StackInfoRenderer, format_exc_info
from structlog.stdlib import ExtraAdder, ProcessorFormatter

from runtime.common.log_text import printable

if TYPE_CHECKING:
    import logging
    from collections.abc import MutableMapping

    from structlog.typing import Processor

    Record = MutableMapping[str, Any]

MAX_TEXT = 4000  # characters of one text: a message, a value, a line of a traceback
TRACEBACK_MARK = "    | "


def describe(_: object, level: str, record: Record) -> Record:
    """Put time, level, logger and message first, then what was bound to the task or given as `extra`.

    The time is that of the record, in UTC.  A value that is None says nothing, and is left out.
    """
    made = record.pop("_record")
    del record["_from_structlog"]
    head = {
        "time": datetime.fromtimestamp(made.created, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "level": level,
        "logger": made.name,
        "message": record.pop("event"),
    }
    return head | {key: value for key, value in record.items() if value is not None}


def columns(_: object, __: str, record: Record) -> Record:
    """Keep what is a line of text: messages have their figures in words, and most name the request."""
    time = datetime.fromisoformat(record["time"]).astimezone()
    kept = {
        "time": time.isoformat(sep=" ", timespec="milliseconds")[: len("2026-01-01 00:00:00.000")],
        "level": record["level"].upper(),
        "logger": record["logger"].removeprefix("cede."),
        "message": record["message"],
    }
    if "part" in record:
        kept["part"] = record["part"]
    request = record.get("request_id")
    if request is not None and str(request) not in record["message"]:
        kept["request_id"] = str(request)
    return kept | {key: record[key] for key in ("exception", "stack") if key in record}


def time_of_day(_: object, __: str, record: Record) -> Record:
    """Leave out the date, which whoever looks at a terminal knows."""
    record["time"] = record["time"].partition(" ")[2]
    return record


def escape(_: object, __: str, record: Record) -> Record:
    """Make every text one line of printable characters, and mark each line of a traceback as such."""
    return {
        key: "\n".join(TRACEBACK_MARK + printable(_cut(line)) for line in text.split("\n"))
        if key in ("exception", "stack")
        else printable(_cut(text))
        for key, text in record.items()
    }


def well_formed(_: object, __: str, record: Record) -> Record:
    """Make every value one that JSON has: half of a surrogate pair is text to Python, and not-a-number a number."""
    return {str(key): _plain(value) for key, value in record.items()}


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if type(value) is str and len(value) <= MAX_TEXT and value.isascii():
        return value  # as nearly all are
    return "\n".join(_cut(line) for line in str(value).encode("utf-8", "backslashreplace").decode().split("\n"))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}..."


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
