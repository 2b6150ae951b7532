"""Which format is chosen, and with which colours."""

from __future__ import annotations

import json
import logging

import pytest

from web.logs.setup import choose_formatter

RECORD = logging.LogRecord("cede.web", logging.WARNING, __file__, 1, "said", None, None)


@pytest.mark.parametrize(
    ("log_format", "on_terminal", "environment", "is_json", "is_coloured"),
    [
        ("auto", True, {}, False, True),
        ("auto", False, {}, True, False),
        ("text", True, {}, False, True),
        ("text", False, {}, False, False),
        ("json", True, {}, True, False),
        ("json", False, {}, True, False),
        ("auto", True, {"NO_COLOR": "1"}, False, False),
        ("auto", True, {"NO_COLOR": ""}, False, True),
        ("auto", True, {"TERM": "dumb"}, False, False),
    ],
)
def test_the_format_is_the_one_asked_for_and_colours_are_for_terminals(
    log_format: str, on_terminal: bool, environment: dict[str, str], is_json: bool, is_coloured: bool
) -> None:
    line = choose_formatter(log_format, environment, on_terminal=on_terminal).format(RECORD)
    assert ("\x1b" in line) is is_coloured
    assert line.startswith("{") is is_json
    if is_json:
        assert json.loads(line)["message"] == "said"
