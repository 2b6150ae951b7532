"""A hub on the loopback address that speaks as much of its protocol as a download needs, ranges of bytes too."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

REVISION = "a" * 40
PIECE = 1 << 16  # bytes that are written at a time


@dataclass(slots=True)
class Served:
    """State of the hub: what it does, and has seen.

    Attributes:
        files: of the one repository, org/name; of any other it says 404.
        status: what it answers to everything, where that is not None.
        sent: other contents than those that are announced, by name.
        stop_after: of a file of weights it sends so many bytes, and then nothing, and keeps the connection.
        ranges: the Range of each request for a file's content, None for a whole one.
        ended: set when it is to leave what it still sends.
    """

    files: Mapping[str, bytes]
    status: int | None = None
    sent: dict[str, bytes] = field(default_factory=dict)
    stop_after: int | None = None
    ranges: list[tuple[str, str | None]] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)


class FakeHub:
    """Serves one repository while the scope lasts.

    Attributes:
        served: what it does; may be changed at any time.
        url: for HF_ENDPOINT.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.served = served = Served(files)

        class Handler(_Handler):
            hub = served

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def __enter__(self) -> FakeHub:
        """Begin to serve."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, whatever is still being sent."""
        self.served.ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Write nothing of a client that has gone."""


class _Handler(BaseHTTPRequestHandler):
    hub: Served
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        """Answer what is known of a file."""
        self.do_GET()

    def do_GET(self) -> None:
        """Answer a question about the repository, or a file's content."""
        path = self.path.partition("?")[0]
        if self.hub.status is not None:
            self._refuse(self.hub.status)
        elif path.startswith("/api/models/org/name"):
            siblings = [_sibling(name, content) for name, content in self.hub.files.items()]
            self._answer(json.dumps({"id": "org/name", "sha": REVISION, "siblings": siblings}).encode())
        elif path.startswith("/org/name/resolve/") and (name := path.split("/", 5)[5]) in self.hub.files:
            self._send_file(name)
        else:
            self._refuse(404)

    def log_message(self, *_: object) -> None:
        """Write nothing."""

    def _refuse(self, status: int) -> None:
        code = {401: "RepoNotFound", 403: "GatedRepo", 404: "RepoNotFound"}.get(status)
        self._answer(b"{}", status, {"X-Error-Code": code} if code else {})

    def _answer(self, body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _send_file(self, name: str) -> None:
        content = self.hub.files[name]
        wanted = self.headers.get("Range")
        start = int(wanted.removeprefix("bytes=").split("-")[0]) if wanted else 0
        body = self.hub.sent.get(name, content)[start:]
        self.send_response(206 if wanted else 200)
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", REVISION)
        self.send_header("Accept-Ranges", "bytes")
        if wanted:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.hub.ranges.append((name, wanted))
        stop = self.hub.stop_after if _is_large(name) else None
        for begin in range(0, len(body) if stop is None else stop, PIECE):
            self.wfile.write(body[begin : min(begin + PIECE, stop or len(body))])
        if stop is not None:
            self.wfile.flush()
            self.hub.ended.wait()


def _sibling(name: str, content: bytes) -> dict[str, object]:
    lfs = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 100}
    return {"rfilename": name, "size": len(content), "blobId": "b"} | ({"lfs": lfs} if _is_large(name) else {})


def _is_large(name: str) -> bool:
    return name.endswith((".safetensors", ".gguf"))
