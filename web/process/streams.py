"""Standard streams that may be closed, or that nobody reads: neither is a reason not to serve."""

from __future__ import annotations

import os
import sys

import click


def open_closed_streams() -> None:
    """Have /dev/null in the place of a standard stream that this process was started without.

    Or the next file or socket that is opened gets its number, and is written to by whatever reports an error there.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            if not _is_open(number):
                _put_null(number)
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # lives as long as the process


def say(line: str, *, err: bool = False) -> None:
    """Write a line for whoever reads it; where nobody does (any more), this and what follows goes nowhere."""
    try:
        click.echo(line, err=err)
    except OSError:
        _put_null((sys.stderr if err else sys.stdout).fileno())  # what is left in the buffer goes there, too


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _put_null(number: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    if null != number:
        os.dup2(null, number)
        os.close(null)
