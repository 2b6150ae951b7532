"""Answers that are sent whole: made in pieces, with others in between, and let go page by page as they are taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from quart.wrappers.response import ResponseBody
from quart_trio.wrappers import TrioResponse as Response

from web.bodies.json_encoding import PageBuffer, iter_json

if TYPE_CHECKING:
    from types import TracebackType

    from actors.generating.unread import Account
    from runtime.errors import CedeError


async def paged_json_response(value: object, account: Account, write_bytes: int) -> Response:
    """The response with the JSON of `value`, which may hold `SelfEncoding`; all of it is made, and its length known.

    Args:
        value: see `pieces.iter_json`.
        account: open until the response was sent.
        write_bytes: of a page; also how much is made before others run.

    Raises:
        CedeError: the account's reader was cut.
    """
    pages = await _make(value, account, write_bytes)
    headers = {"content-length": str(len(pages))}
    return Response(PagedBody(pages, account), headers=headers, content_type="application/json")


async def _make(value: object, account: Account, write_bytes: int) -> PageBuffer:
    pages, next_stop = PageBuffer(write_bytes), write_bytes
    for piece in iter_json(value):
        pages.write(piece)
        if len(pages) >= next_stop:
            next_stop = len(pages) + write_bytes
            account.hold(max(account.held, len(pages)))  # what it was made of was accounted for already
            account.check()
            await trio.lowlevel.checkpoint()
    account.check()
    return pages


class PagedBody(ResponseBody):
    """The body of a response that is there as a whole.

    What the reader has taken is no longer accounted for.  Where it is cut, the rest is dropped at once, and its
    connection ends before the announced length is reached.
    """

    def __init__(self, pages: PageBuffer, account: Account) -> None:
        self._pages = pages
        self._account = account
        account.on_cut = self._cut
        account.gathering = False
        account.hold(len(pages))

    async def __aenter__(self) -> PagedBody:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        pass

    def __aiter__(self) -> PagedBody:
        return self

    async def __anext__(self) -> bytes:
        await trio.lowlevel.checkpoint()
        if self._account.error is not None:
            raise trio.TooSlowError(str(self._account.error))
        self._account.hold(len(self._pages))  # the page before was taken
        if page := self._pages.take():
            return page
        raise StopAsyncIteration

    def _cut(self, _: CedeError) -> None:
        self._pages.clear()
