"""The routes that serve the document."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from web.bodies.json_encoding import dumps
from web.bodies.paged_response import paged_response
from web.http.asgi import current_request
from web.openapi.document import openapi_document
from web.openapi.operations import ANY_ROUTE, JSON, LISTS, Operation, Reply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quart_trio.wrappers import TrioResponse as Response

    from actors.engine import Engine
    from web.http.asgi import ScopedApp
    from web.openapi.operations import Api

DOCUMENT = "/openapi.json"

OPERATIONS = (
    Operation(
        "get",
        DOCUMENT,
        "openapi",
        "This document",
        {200: Reply("OpenAPI 3.1.", {JSON: None})},
        errors=ANY_ROUTE | LISTS,
    ),
)


class ServedDocument:
    """The document as bytes, which are made once, when somebody asks for them.

    Args:
        apis: as `document.openapi_document` takes them, like the next.
        keyed: whether the server has keys.
    """

    def __init__(self, apis: Sequence[Api], *, keyed: bool) -> None:
        self._apis = apis
        self._keyed = keyed
        self._making = trio.Lock()
        self._made = b""

    async def read(self) -> bytes:
        """Return the document.  A thread makes it, because that takes a tenth of a second."""
        async with self._making:
            if not self._made:
                self._made = await trio.to_thread.run_sync(self._make)
            return self._made

    def _make(self) -> bytes:
        return dumps(openapi_document(self._apis, keyed=self._keyed)).encode()


def add_routes(app: ScopedApp, engine: Engine, apis: Sequence[Api], *, keyed: bool, write_bytes: int) -> None:
    """Add the routes to an application.

    Args:
        app: to be extended.
        engine: whose bound on what is unread holds for the document, too.
        apis: all that the application serves.
        keyed: whether the server has keys, one of which a client has to have.
        write_bytes: of one write to a connection.
    """
    served = ServedDocument(apis, keyed=keyed)

    def respond(content: bytes, media_type: str) -> Response:
        http_request = current_request()
        backlog = engine.unread.backlog(f"GET {http_request.path}", gathering=True)
        return paged_response(content, http_request.resources.enter_context(backlog), write_bytes, media_type)

    @app.get(DOCUMENT)
    async def document() -> Response:
        return respond(await served.read(), JSON)
