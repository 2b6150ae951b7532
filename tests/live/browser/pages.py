"""A web server for pages of other origins than the server under test."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Self
from urllib.parse import parse_qs, urlsplit

from tests.live.browser.chromium import REBOUND

if TYPE_CHECKING:
    from types import TracebackType


class _Handler(BaseHTTPRequestHandler):
    """An empty page under each path but `/redirect`, which sends the browser on with the same method and body."""

    def do_GET(self) -> None:
        """Answer, whatever the method."""
        self.rfile.read(int(self.headers.get("content-length", 0)))
        parts = urlsplit(self.path)
        if parts.path == "/redirect":
            self.send_response(307)
            self.send_header("location", parse_qs(parts.query)["to"][0])
            self.send_header("content-length", "0")
            self.end_headers()
            return
        page = b"<!doctype html><title>a page</title><link rel=icon href=data:,>"
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    do_POST = do_GET  # noqa: N815  its parent's names

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing to the standard error."""


class PageServer:
    """Serves pages on a loopback port, under three origins, until the scope ends."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._thread = Thread(target=self._server.serve_forever, name="pages")

    def __enter__(self) -> Self:
        """Begin to serve."""
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """End, with all connections."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def friend(self) -> str:
        """An origin that a server may be told to allow."""
        return f"http://localhost:{self._server.server_port}"

    @property
    def neighbour(self) -> str:
        """An origin that is of the same site as servers on loopback, and another origin."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def stranger(self) -> str:
        """An origin of another site."""
        return f"http://{REBOUND}:{self._server.server_port}"
