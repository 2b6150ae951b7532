"""What a raised exception keeps alive: the frames that it went through, and all that they held."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def empty_frames(error: BaseException) -> None:
    """Empty the frames that `error`, what is in it and what it came from have gone through, where they have ended.

    An exception refers to its frames, and some of them (contextlib's, Trio's, a thread's) to the exception: a cycle, in
    which a request with its body and its answer would stay until the next full collection.
    """
    for one in list(_all(error, set())):
        traceback.clear_frames(one.__traceback__)


def forget_frames(error: BaseException) -> None:
    """As `empty_frames`, for an error that was dealt with: it goes no further, and nobody wants to know where it was."""
    empty_frames(error)
    for one in list(_all(error, set())):
        one.__traceback__ = None


def _all(error: BaseException | None, seen: set[int]) -> Iterator[BaseException]:
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    yield error
    for other in (error.__cause__, error.__context__, *getattr(error, "exceptions", ())):
        yield from _all(other, seen)
