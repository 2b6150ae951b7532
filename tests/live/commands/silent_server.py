"""A server whose answers do not end, and whose receipts come when a test lets them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.live.server import PATIENCE

MODEL = {"id": "a-model", "max_model_len": 100}
CHUNK = {"id": "chat-1", "choices": [{"index": 0, "delta": {"content": "it never ends "}, "finish_reason": None}]}


class SilentServer:
    """Record of what the server has been asked, and what it waits for.

    Attributes:
        url: its address.
        asked_for_receipt: somebody waits for one.
        may_tell: receipts are told.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked_for_receipt = threading.Event()
        self.may_tell = threading.Event()


@contextmanager
def silent_server() -> Iterator[SilentServer]:
    """Serve while the scope lasts."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path.startswith("/v1/receipts"):
                silent.asked_for_receipt.set()
                silent.may_tell.wait(PATIENCE)
                self._answer({"data": []})
            else:
                self._answer({"data": [MODEL]})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("x-request-id", "chat-1")
            self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(f"data: {json.dumps(CHUNK)}\n\n".encode())
            self.wfile.flush()
            self.rfile.read(1)  # until the client hangs up
            self.close_connection = True

        def _answer(self, value: object) -> None:
            body = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        silent = SilentServer(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield silent
        finally:
            silent.may_tell.set()
            server.shutdown()
            thread.join()
