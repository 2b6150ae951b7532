"""Setup of the log: which format is chosen, and with which colours."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import pytest

from web.observability.logs.setup import choose_formatter

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


CRASHING = """
import logging, threading
from web.observability.logs.setup import log_to_stderr

class Broken:
    def __del__(self):
        raise ValueError("ignored")

handler = log_to_stderr("info", "json", {}, "worker 1")
logging.getLogger("cede.web").info("begins")
handler.say("said")
Broken()
thread = threading.Thread(target=lambda: 1 / 0, name="one")
thread.start()
thread.join()
raise RuntimeError("no\\n{}")
"""


def test_what_python_itself_says_of_exceptions_is_in_the_log_and_none_of_it_is_lost_at_the_end() -> None:
    done = subprocess.run([sys.executable, "-c", CRASHING], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout == "said\n"
    begins, ignored, thread, crash = lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert {line["part"] for line in lines} == {"worker 1"}
    assert begins["message"] == "begins"
    assert ignored["exception"].endswith("ValueError: ignored")
    assert thread["message"] == "an exception ends a thread: one"
    assert thread["exception"].endswith("ZeroDivisionError: division by zero")
    assert crash["message"] == "an exception ends the process"
    assert crash["exception"].endswith("RuntimeError: no\n{}")
