"""A buffer of bytes that is emptied a page at a time."""

from __future__ import annotations

from collections import deque


class PageBuffer:
    """Bytes that grow at one end and are taken at the other in pages of one size; only the last may be shorter.

    Its length is the number of bytes that were written and not yet taken.

    Args:
        page_bytes: of a page.
    """

    def __init__(self, page_bytes: int) -> None:
        self._page_bytes = page_bytes
        self._full: deque[bytes] = deque()
        self._last = bytearray()
        self._length = 0

    def __len__(self) -> int:
        """Return the number of bytes that were written and not yet taken."""
        return self._length

    def write(self, data: bytes) -> None:
        """Add `data` at the end."""
        self._last += data
        self._length += len(data)
        while len(self._last) >= self._page_bytes:
            self._full.append(bytes(self._last[: self._page_bytes]))
            del self._last[: self._page_bytes]

    def take(self) -> bytes:
        """Take the next page; empty if there is none."""
        page = self._full.popleft() if self._full else bytes(self._last)
        if len(page) < self._page_bytes:
            self._last.clear()
        self._length -= len(page)
        return page

    def clear(self) -> None:
        """Drop everything."""
        self._full.clear()
        self._last.clear()
        self._length = 0
