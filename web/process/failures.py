"""Failures of a command: one line, and the status 1."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from runtime.errors import CedeError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def said_in_a_line() -> Iterator[None]:
    """Say what cede raises on purpose in a line, also where it comes out of nurseries.

    Raises:
        click.ClickException: the line.
    """
    failure: CedeError | None = None
    try:
        yield
    except* CedeError as group:  # what else is in a group is raised
        failure = _first_of(group)
    if failure is not None:
        raise click.ClickException(str(failure)) from None


def _first_of(error: BaseException) -> CedeError:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, CedeError)
    return error
