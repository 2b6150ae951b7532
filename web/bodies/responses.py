"""Responses: short ones, and those that are sent whole, encoded in small steps with others in between, page by page."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Self

import trio
from quart.wrappers.response import ResponseBody
from quart_trio.wrappers import TrioResponse as Response

from runtime.common.units import KIB
from web.bodies.json_encoding import FRAGMENT, dumps, iter_json
from web.bodies.page_buffer import PageBuffer
from web.http.asgi import current_request

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from actors.generating.unread import Backlog, Unread
    from runtime.errors import CedeError


class StreamBody(ResponseBody):
    """The body of a response that is an iterator of its own.

    It puts nothing away at its end: what it reads from belongs to whoever opened that, and ends with the HTTP request.
    """

    async def __aenter__(self) -> Self:
        """Return the body itself."""
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Do nothing."""

    def __aiter__(self) -> Self:
        """Return the body itself."""
        return self

    @abstractmethod
    async def __anext__(self) -> bytes:
        """Return what to write next."""


ENCODED_AT_A_TIME = 64 * KIB
"""Bytes that are encoded before other tasks run."""


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a short response, such as an error object."""
    return Response(dumps(value), status, dict(headers or {}), content_type="application/json")


async def encode_json(value: object) -> bytes:
    """Encode a value that may be long, as `json_encoding.iter_json` takes it; others run in between."""
    fragments, size = [], 0
    for fragment in iter_json(value):
        fragments.append(fragment)
        size += max(len(fragment), FRAGMENT)
        if size >= ENCODED_AT_A_TIME:
            size = 0
            await trio.lowlevel.checkpoint()
    return b"".join(fragments)


def response_backlog(unread: Unread, what: str = "") -> Backlog:
    """Return the backlog of the current request's response, open until that is sent.

    Args:
        unread: what all readers may leave unread.
        what: it holds of the engine's request, for the log; without that it is named by the request's method and path.
    """
    http_request = current_request()
    request_id = http_request.generation_id if what else None
    name = f"{what} {request_id}" if what else f"{http_request.method} {http_request.path}"
    return http_request.resources.enter_context(unread.backlog(name, gathering=True, request_id=request_id))


async def paged_json_response(value: object, backlog: Backlog, page_bytes: int) -> Response:
    """Encode `value` and return the response that sends it.  All of it is encoded first, so that its length is known.

    Args:
        value: as `json_encoding.iter_json` takes it.
        backlog: of the unread bytes of this response; open until it is sent.
        page_bytes: of a page; also how much is encoded before other tasks run.

    Raises:
        CedeError: the backlog's reader was cut.
    """
    return _response(await _encode(value, backlog, page_bytes), backlog, "application/json")


def paged_response(content: bytes, backlog: Backlog, page_bytes: int, content_type: str) -> Response:
    """Return the response that sends `content` page by page.

    Args:
        content: the whole body.
        backlog: of the unread bytes of this response; open until it is sent.
        page_bytes: of a page.
        content_type: of the body.

    Raises:
        CedeError: the backlog's reader was cut.
    """
    pages = PageBuffer(page_bytes)
    pages.write(content)
    backlog.set_size(len(pages))
    backlog.check()
    return _response(pages, backlog, content_type)


def _response(pages: PageBuffer, backlog: Backlog, content_type: str) -> Response:
    headers = {"content-length": str(len(pages))}
    return Response(PagedBody(pages, backlog), headers=headers, content_type=content_type)


async def _encode(value: object, backlog: Backlog, page_bytes: int) -> PageBuffer:
    pages, encoded = PageBuffer(page_bytes), 0  # since others had their turn
    for fragment in iter_json(value):
        pages.write(fragment)
        encoded += max(len(fragment), FRAGMENT)
        if encoded >= page_bytes:
            encoded = 0
            backlog.set_size(max(backlog.held, len(pages)))  # what it is made of is accounted for already
            backlog.check()
            await trio.lowlevel.checkpoint()
    backlog.check()
    return pages


class PagedBody(StreamBody):
    """The body of a response that is complete.

    A page that the reader has taken is no longer accounted for.  If the reader is cut, the rest is dropped at once, and
    its connection ends before the announced length is reached.

    Args:
        pages: the body.
        backlog: of its bytes.
    """

    def __init__(self, pages: PageBuffer, backlog: Backlog) -> None:
        self._pages = pages
        self._backlog = backlog
        backlog.on_cut = self._cut
        backlog.gathering = False
        backlog.set_size(len(pages))

    async def __anext__(self) -> bytes:
        """Return the next page.

        Raises:
            trio.TooSlowError: the reader was cut.
        """
        await trio.lowlevel.checkpoint()
        if self._backlog.error is not None:
            raise trio.TooSlowError(str(self._backlog.error))
        self._backlog.set_size(len(self._pages))  # the page before was taken
        if page := self._pages.take():
            return page
        raise StopAsyncIteration

    def _cut(self, _: CedeError) -> None:
        self._pages.clear()
