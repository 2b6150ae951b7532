"""A log record as a mapping, step by step, as structlog's processors do it.

Clients are quoted in messages, in exceptions of libraries, and in figures.  So all that is shown passes one of two
steps: `escape` for a terminal, `well_formed` for JSON.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from runtime.common.log_text import printable

if TYPE_CHECKING:
    from collections.abc import MutableMapping

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
