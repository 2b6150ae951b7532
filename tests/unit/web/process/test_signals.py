"""Signals while there is something to put away; each in a process of its own, which ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]

# Interrupted work that says when it has begun, and when it puts away what it has begun; `cleaning` is how it does that.
# It naps, and does not wait for an event: a signal that comes in the instant before a wait begins would be handled only
# after the wait, by CPython's rules, and so never.
NAPS = "while True: time.sleep(0.01)"
WORK = """
import os, signal, sys, time
from web.process.signals import SIGNALS, exit_now, unwound_by_signals
with unwound_by_signals(lambda number: exit_now(128 + number)):
    try:
        print("works", flush=True)
        {work}
    finally:
        print("puts away", flush=True)
        {cleaning}
        print("has put away", flush=True)
print("goes on", flush=True)
"""


def interrupted(cleaning: str, *numbers: signal.Signals) -> tuple[list[str], int]:
    """Send signals to such work, the first when it works and the others when it cleans up."""
    return run_interrupted(WORK.format(work=NAPS, cleaning=cleaning), *numbers)


def run_interrupted(code: str, *numbers: signal.Signals) -> tuple[list[str], int]:
    """Run code, and send a signal after each line that it writes; return the lines and the status."""
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        said = []
        for number in numbers:
            said.append(child.stdout.readline())
            child.send_signal(number)
        said += child.stdout.readlines()
    return [line.strip() for line in said], child.returncode


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_work_puts_away_what_it_has_begun_and_the_process_ends(number: signal.Signals) -> None:
    assert interrupted("pass", number) == (["works", "puts away", "has put away"], 128 + number)


def test_a_second_signal_ends_a_clean_up_at_once() -> None:
    said, status = interrupted(NAPS, signal.SIGINT, signal.SIGTERM)
    assert (said, status) == (["works", "puts away"], 128 + signal.SIGTERM)


def test_a_clean_up_without_an_end_is_ended() -> None:
    assert interrupted(NAPS, signal.SIGINT) == (["works", "puts away"], 128 + signal.SIGINT)


def test_an_exception_that_somebody_swallows_does_not_let_the_process_go_on() -> None:
    code = WORK.replace("    finally:\n", "    except BaseException:\n").format(work=NAPS, cleaning="pass")
    said, status = run_interrupted(code, signal.SIGTERM)
    assert (said[-1], status) == ("has put away", 128 + signal.SIGTERM)


def test_without_a_signal_the_handlers_are_as_before() -> None:
    code = """
import signal
from web.process.signals import SIGNALS, exit_now, unwound_by_signals
before = [signal.getsignal(number) for number in SIGNALS]
with unwound_by_signals(exit_now):
    assert [signal.getsignal(number) for number in SIGNALS] != before
assert [signal.getsignal(number) for number in SIGNALS] == before
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
