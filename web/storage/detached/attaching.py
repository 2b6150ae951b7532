"""Responses that read a request which may outlive its client: its log, or its whole answer."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from quart_trio.wrappers import TrioResponse as Response

from web.bodies.responses import paged_response, response_backlog
from web.http.asgi import current_request
from web.storage.detached.event_log import AttachedStream
from web.storage.detached.runs import SSE

if TYPE_CHECKING:
    from actors.generating.unread import Unread
    from web.storage.detached.run import Run


def attached(run: Run, after: int, write_bytes: int, *, reading: bool = False) -> Response:
    """Return a response that streams the events of a request, to one more reader of it.

    Args:
        run: of the request; streamed.
        after: number of the last event that the client knows; -1 for none.
        write_bytes: of one write.
        reading: whether the current request's resources make it a reader already.
    """
    http_request = current_request()
    http_request.generation_id = run.id
    if not reading:
        http_request.resources.enter_context(run.reading())
    greeting = f": {run.id}\n\n".encode() if run.content_type.startswith(SSE) else b""
    body = AttachedStream(run.log, after + 1, write_bytes, greeting)
    return Response(body, headers=dict(run.headers), content_type=run.content_type)


async def whole(run: Run, unread: Unread, write_bytes: int) -> Response:
    """Return the whole answer of a request that has ended.

    Args:
        run: of the request; not streamed.
        unread: what all readers may leave unread.
        write_bytes: of one write.

    Raises:
        CedeError: what the request ended with in place of an answer.
    """
    current_request().generation_id = run.id
    if run.error is not None:
        raise copy(run.error)  # several may ask, and each has a traceback of its own
    content = run.log.read_nowait(0) or b""
    return paged_response(content, response_backlog(unread), write_bytes, run.content_type)
