"""Formats of the log, of records of which some are hostile."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from structlog.contextvars import bound_contextvars

from web.observability.logs.formats import MAX_TEXT, json_formatter, text_formatter

FORGERY = (
    'x"}\r\n{"level": "error"}\n2026-01-01 00:00:00.000 ERROR   web     forged\x1b[2J\x9b31m\u2028\u202e\0\x7f\ud800'
)
PLAIN = text_formatter(on_terminal=False, colours=False)


@contextmanager
def formatted(formatter: logging.Formatter) -> Iterator[tuple[logging.Logger, io.StringIO]]:
    """A logger, and what the formatter makes of it."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(formatter)
    logger = logging.getLogger("cede.test")
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield logger, written
    finally:
        logger.removeHandler(handler)
        logger.propagate = True


def say_all(logger: logging.Logger) -> None:
    """Log a forgery in every place that a client's text can get to: four records."""
    logger.warning("said: %s", FORGERY)
    logger.warning("with %s", "figures", extra={"path": FORGERY, FORGERY: [FORGERY, {"a": FORGERY}]})
    with bound_contextvars(request_id=FORGERY):
        logger.error("bound", stack_info=True)
    try:
        raise ValueError(FORGERY)
    except ValueError:
        logger.exception("failed")


# --- text -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_terminal", [False, True])
@pytest.mark.parametrize("colours", [False, True])
def test_no_text_can_begin_a_line_or_steer_a_terminal(on_terminal: bool, colours: bool) -> None:
    with formatted(text_formatter(on_terminal=on_terminal, colours=colours)) as (logger, written):
        say_all(logger)
    text = written.getvalue()
    if colours:
        text, count = re.subn(r"\x1b\[(0|1|2|3\d)m", "", text)
        assert count
    lines = text.split("\n")[:-1]
    assert all(line.isprintable() for line in lines)
    records = [line for line in lines if not line.startswith("    | ")]
    assert len(records) == 4
    assert all(re.match(r"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d\.\d{3} (WARNING|ERROR  ) test ", line) for line in records)


def test_a_line_of_text_is_short_and_aligned() -> None:
    with formatted(PLAIN) as (logger, written):
        logger.error("one")
        logger.warning("two %d", 2, extra={"status": 200})
        logger.warning("long: %s", "a" * 10 * MAX_TEXT)
    first, second, long = written.getvalue().splitlines()
    assert first[24:] == "ERROR   test   one"
    assert second[24:] == "WARNING test   two 2"
    assert len(long) < MAX_TEXT + 50
    assert long.endswith("...")


def test_a_terminal_shows_no_date() -> None:
    with formatted(text_formatter(on_terminal=True, colours=False)) as (logger, written):
        logger.error("one")
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3} ERROR   test   one\n", written.getvalue())


def test_a_line_of_text_names_its_request_once() -> None:
    with formatted(PLAIN) as (logger, written), bound_contextvars(request_id="cmpl-1"):
        logger.error("failed")
        logger.error("cmpl-1: failed")
        logger.error("cut", extra={"request_id": "cmpl-2"})
        logger.error("of nobody's", extra={"request_id": None})
    said = [line[39:] for line in written.getvalue().splitlines()]
    assert said == ["failed [cmpl-1]", "cmpl-1: failed", "cut [cmpl-2]", "of nobody's"]


def test_a_line_of_a_cluster_says_whose_it_is() -> None:
    with formatted(text_formatter(on_terminal=True, colours=False)) as (logger, written):
        logger.warning("said", extra={"part": "worker 1"})
    assert written.getvalue().split()[1:] == ["WARNING", "worker", "1", "test", "said"]


# --- JSON -------------------------------------------------------------------------------------------------------------


def records_of(text: str) -> list[dict[str, Any]]:
    """The records of a log in JSON, one a line, as strict parsers read them."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    assert text.endswith("\n")
    return [json.loads(line, parse_constant=refuse) for line in text[:-1].split("\n")]


def test_a_record_is_an_object_on_one_line_of_printable_ascii() -> None:
    with formatted(json_formatter()) as (logger, written):
        say_all(logger)
    lines = written.getvalue().split("\n")[:-1]
    assert all(line.isprintable() and line.isascii() for line in lines)
    records = records_of(written.getvalue())
    assert [record["level"] for record in records] == ["warning", "warning", "error", "error"]
    assert all("\ud800" not in str(record) for record in records), "strict parsers know no half of a pair"
    shown = FORGERY.replace("\ud800", "\\ud800")
    assert records[0]["message"] == f"said: {shown}"
    assert records[1]["path"] == shown
    assert records[2]["request_id"] == shown
    assert records[3]["exception"].startswith("Traceback")
    assert "ValueError" in records[3]["exception"]


def test_a_record_has_what_was_bound_and_the_figures() -> None:
    figures = {
        "status": 200,
        "seconds": 0.25,
        "key": None,
        "odd": float("nan"),
        "all": (1, "b"),
        "any": ValueError("x"),
    }
    with formatted(json_formatter()) as (logger, written), bound_contextvars(request_id="cmpl-1", other=1):
        logger.warning("a %s", "message", extra=figures | {"other": 2})
    (record,) = records_of(written.getvalue())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", record.pop("time"))
    assert record == {
        "level": "warning",
        "logger": "cede.test",
        "message": "a message",
        "request_id": "cmpl-1",
        "other": 2,
        "status": 200,
        "seconds": 0.25,
        "odd": "nan",
        "all": [1, "b"],
        "any": "x",
    }
    assert list(record)[:3] == ["level", "logger", "message"]


def test_long_texts_are_cut() -> None:
    with formatted(json_formatter()) as (logger, written):
        logger.warning("a" * 10 * MAX_TEXT, extra={"path": "b" * 10 * MAX_TEXT})
    assert len(written.getvalue()) < 2 * MAX_TEXT + 200
