"""Prompts that are read to their end after the client has gone, so that a retry finds them read."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Iterator


class Prefills:
    """Progress of a request's generations that may be asked to read their prompts and do no more.

    Attributes:
        wanted: whether nothing else is wanted of them any more.
        only_read: indices of those that went on for that alone, and have done it.
    """

    def __init__(self) -> None:
        self.wanted = False
        self.only_read: set[int] = set()
        self._scopes: dict[int, trio.CancelScope] = {}  # of those that run, by index
        self._finished: set[int] = set()

    @contextmanager
    def scope_of(self, index: int) -> Iterator[None]:
        """Surround a generation from its beginning to its end."""
        with trio.CancelScope() as self._scopes[index]:
            yield

    async def finished(self, index: int) -> None:
        """Note that a generation has read its prompt, which is its end if nothing else is wanted."""
        self._finished.add(index)
        if self.wanted:
            self.only_read.add(index)
            self._scopes[index].cancel()
            await trio.lowlevel.checkpoint()

    def want(self) -> None:
        """Want nothing else of them from now on."""
        self.wanted = True
        for index in self._finished:
            self._scopes[index].cancel()
