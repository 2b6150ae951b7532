"""A server of the page whose feed is a recording."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self

from web.observability.page.files import INDEX, SiteFiles
from web.observability.page.routes import FILES, POLICY, ROOT

if TYPE_CHECKING:
    from types import TracebackType

    from bench.page.recording import Recording

MODELS = json.dumps({"object": "list", "data": [{"id": "stand-in", "object": "model"}]}).encode()


class StandIn:
    """Serves on a loopback port until the scope ends.

    Each stream plays the next recording, once that is given; then the connection ends.

    Attributes:
        url: of the page.
        streams: that were given something to play.
        asked: set once somebody has asked for a stream.
    """

    def __init__(self) -> None:
        self.site = SiteFiles()
        self.streams = 0
        self.asked = threading.Event()
        self.over = threading.Event()
        self._given = threading.Condition()
        self._next: tuple[Recording, bool] | None = None
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, name="stand-in")
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        """Begin to serve."""
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """End, with all streams."""
        self.over.set()
        with self._given:
            self._given.notify_all()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def play(self, recording: Recording, *, paced: bool) -> None:
        """Give the next stream something to tell.

        Args:
            recording: all of it.
            paced: each frame at its time; else as fast as the page takes them.
        """
        with self._given:
            self._next = recording, paced
            self._given.notify_all()

    def take(self) -> tuple[Recording, bool]:
        """Wait until there is something to play, and return it; nothing once this has ended."""
        self.asked.set()
        with self._given:
            self._given.wait_for(lambda: self._next is not None or self.over.is_set())
            taken, self._next = self._next, None
            self.streams += 1
        return taken or ((), False)


class _Server(ThreadingHTTPServer):
    daemon_threads = False

    def __init__(self, stand_in: StandIn) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.stand_in = stand_in


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        """Answer with a file of the page, or with a recording."""
        stand_in = self.server.stand_in
        site = stand_in.site.by_name
        name = INDEX if self.path == ROOT else self.path.removeprefix(f"{FILES}/")
        if self.path == "/v1/events":
            self._begin(200, "text/event-stream")
            self._play(*stand_in.take())
        elif self.path == "/v1/models":
            self._answer(MODELS, "application/json")
        elif name in site:
            self._answer(site[name].content, site[name].media_type)
        else:
            self.send_error(404)

    def _answer(self, content: bytes, media_type: str) -> None:
        self._begin(200, media_type, **POLICY)
        self.wfile.write(content)

    def _begin(self, status: int, media_type: str, **headers: str) -> None:
        self.send_response(status)
        for header, value in {"content-type": media_type, **headers}.items():
            self.send_header(header, value)
        self.end_headers()

    def _play(self, recording: Recording, paced: bool) -> None:
        began = time.monotonic()
        try:
            for frame in recording:
                if paced and self.server.stand_in.over.wait(max(0.0, began + frame.at - time.monotonic())):
                    break
                self.wfile.write(frame.wire)
        except ConnectionError:
            return  # the page is closed

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing to the standard error."""
