"""Frees what a raised exception keeps alive: the frames that it went through, and all that they held."""

from __future__ import annotations


def clear_tracebacks(error: BaseException) -> None:
    """Remove the tracebacks of an exception that was dealt with, of its causes and of those that it groups.

    An exception refers to its frames, and some frames (of contextlib, of Trio, of threads) refer to the exception.  In
    that cycle a request, with its body and its response, would stay until the next full garbage collection.
    """
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        current = pending.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        current.__traceback__ = None
        pending += [current.__cause__, current.__context__]
        if isinstance(current, BaseExceptionGroup):
            pending += current.exceptions
