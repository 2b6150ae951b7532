"""What a raised exception keeps alive: the frames that it went through, and all that they held."""

from __future__ import annotations


def clear_tracebacks(error: BaseException) -> None:
    """Have `error`, what is in it and what it came from forget where they were raised; for what was dealt with.

    An exception refers to its frames, and some of them (contextlib's, Trio's, a thread's) to the exception: a cycle, in
    which a request with its body and its answer would stay until the next full collection.
    """
    known: set[int] = set()
    found: list[BaseException | None] = [error]
    while found:
        one = found.pop()
        if one is None or id(one) in known:
            continue
        known.add(id(one))
        one.__traceback__ = None
        found += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            found += one.exceptions
