"""The routes that serve the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from quart_trio.wrappers import TrioResponse as Response

from runtime.errors import NotFound
from web.bodies.responses import paged_response, response_backlog
from web.generation.openai_format.errors import Error
from web.http.asgi import current_request
from web.observability.page.files import INDEX, SERVER_VIEWS, SiteFiles, with_views
from web.openapi.operations import ANY_ROUTE, LISTS, Api, Parameter, Reply

if TYPE_CHECKING:
    from actors.generating.unread import Unread
    from web.http.asgi import ScopedApp
    from web.observability.page.files import SiteFile

ROOT, FILES = "/", "/page"
HTML, TEXT, SCRIPT, STYLE, PICTURE = "text/html", "text/plain", "text/javascript", "text/css", "image/svg+xml"

RUNNING = b"cede is running"
"""What Ollama's clients ask for before anything else."""

POLICY = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types dompurify"
    ),
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
"""Headers of the page and its files: nothing is run, shown or asked that is not of this origin, and DOMPurify alone
makes HTML of text (Trusted Types, https://w3c.github.io/trusted-types)."""


def add_routes(app: ScopedApp, unread: Unread, write_bytes: int, views: str = SERVER_VIEWS) -> None:
    """Add them to an application.

    Args:
        app: to be extended.
        unread: what all readers may leave unread, the page's among them.
        write_bytes: of one write to a connection.
        views: those that the page has here.
    """
    api = Api(app, "Page", "The page that shows the server at work.", Error, ANY_ROUTE | LISTS)
    site = SiteFiles()

    async def read() -> dict[str, SiteFile]:
        return await trio.to_thread.run_sync(lambda: site.by_name, abandon_on_cancel=True)

    def respond(file: SiteFile) -> Response:
        if current_request().if_none_match.contains_weak(file.tag.strip('"')):
            response = Response(b"", 304)
            del response.headers["content-type"]
        else:
            response = paged_response(file.content, response_backlog(unread), write_bytes, file.media_type)
        response.headers.update(POLICY)
        response.headers["etag"] = file.tag
        response.headers["cache-control"] = "no-cache"  # asked for again each time, and not sent again
        return response

    @api.get(ROOT, {200: Reply("The page, or that it runs.", {HTML: None, TEXT: None})}, open=True)
    async def page() -> Response:
        """Get the page, as a browser asks; else whether the server runs, as Ollama's clients ask."""
        if wants_page():
            response = respond(with_views((await read())[INDEX], views))
        else:
            response = Response(RUNNING, content_type="text/plain; charset=utf-8")
        response.headers["vary"] = "Accept"
        return response

    @api.get(
        f"{FILES}/<path:name>",
        {
            200: Reply("The file.", {SCRIPT: None, STYLE: None, HTML: None, PICTURE: None, TEXT: None}),
            304: Reply("It is the one that the client has."),
        },
        {404},
        parameters=(
            Parameter("name", "It may hold slashes.", place="path"),
            Parameter("If-None-Match", "The tag of the one that the client has.", place="header"),
        ),
        open=True,
    )
    async def page_file(name: str) -> Response:
        """Get a file of the page."""
        if (file := (await read()).get(name)) is None:
            raise NotFound(f"The page has no file '{name}'.", param="name", code="file_not_found")
        return respond(file)


def wants_page() -> bool:
    """Return whether the client names HTML, as browsers do; `*/*` is what programs say that take anything."""
    return any(value == HTML for value, quality in current_request().accept_mimetypes if quality > 0)
