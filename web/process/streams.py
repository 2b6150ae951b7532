"""Standard streams that are closed, or that nobody reads.  Neither is a reason not to serve."""

from __future__ import annotations

import os
import sys

import click


def open_closed_streams() -> None:
    """Open /dev/null in place of each standard stream that the process was started without.

    Otherwise the next file or socket that is opened gets the stream's number, and reports of errors are written to it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            if not _is_open(number):
                _put_null(number)
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # lives as long as the process


def say(line: str, *, err: bool = False) -> None:
    """Write a line to a standard stream.  If nobody reads the stream any more, drop this line and all that follow."""
    try:
        click.echo(line, err=err)
    except OSError:
        _put_null((sys.stderr if err else sys.stdout).fileno())  # the rest of the buffer goes there, too


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
