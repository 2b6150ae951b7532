"""The routes that serve the document, and the page that shows it.

The document wants a key like everything else.  The page's own files do not: they say nothing of this server, and a
browser sends no key with a page.  The page asks for the key where the document is refused.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import trio

from web.bodies.json_encoding import dumps
from web.bodies.responses import paged_response, response_backlog
from web.openapi.document import openapi_document
from web.openapi.operations import JSON, LISTS, Reply, apis_of
from web.openapi.viewer_files import read_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quart_trio.wrappers import TrioResponse as Response

    from actors.generating.unread import Unread
    from web.openapi.operations import Api

DOCUMENT, PAGE = "/openapi.json", "/docs"
HTML, SCRIPT = "text/html", "text/javascript"
SCRIPTS = {f"{PAGE}/{name}": name for name in ("docs.js", "rapidoc-min.js")}

PAGE_POLICY = {
    # RapiDoc styles its elements one by one.  Nothing else is run or shown that is not of this origin.
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
"""Headers of the page and its scripts."""


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
        """Return the document.  A thread makes it, which takes it half a second or more."""
        async with self._making:
            if not self._made:
                self._made = await trio.to_thread.run_sync(self._make, abandon_on_cancel=True)
            return self._made

    def _make(self) -> bytes:
        return dumps(openapi_document(self._apis, keyed=self._keyed)).encode()


def add_routes(api: Api, unread: Unread, *, keyed: bool, write_bytes: int) -> None:
    """Add the routes to an API; the document is of all APIs of its application.

    Args:
        api: to be extended.
        unread: what all readers may leave unread, the document's among them.
        keyed: whether the server has keys, one of which a client has to have.
        write_bytes: of one write to a connection.
    """
    served = ServedDocument(apis_of(api.app), keyed=keyed)

    def respond(content: bytes, media_type: str) -> Response:
        return paged_response(content, response_backlog(unread), write_bytes, media_type)

    async def respond_file(name: str, media_type: str) -> Response:
        content = await trio.to_thread.run_sync(read_file, name, abandon_on_cancel=True)
        response = respond(content, f"{media_type}; charset=utf-8")
        response.headers.update(PAGE_POLICY)
        return response

    @api.get(DOCUMENT, {200: Reply("OpenAPI 3.1.", {JSON: None})}, LISTS)
    async def openapi() -> Response:
        """Get this document."""
        return respond(await served.read(), JSON)

    @api.get(PAGE, {200: Reply("A page that asks no other server for anything.", {HTML: None})}, LISTS, open=True)
    async def docs() -> Response:
        """Get a page that shows this document."""
        return await respond_file("docs.html", HTML)

    for path, name in SCRIPTS.items():
        operation = f"docs_{name.partition('.')[0].replace('-', '_')}"
        answer, summary = {200: Reply("The script.", {SCRIPT: None})}, "Get a script of the page that shows it"
        add = api.route("get", path, answer, LISTS, name=operation, summary=summary, open=True)
        add(partial(respond_file, name, SCRIPT))
