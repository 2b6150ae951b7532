"""A collector for tests: it speaks OTLP over HTTP, decodes what comes, and keeps the spans."""

from __future__ import annotations

import gzip
import http.server
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.proto.common.v1.common_pb2 import KeyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """Keeps what was exported to it.

    Attributes:
        spans: in the order in which they came.
        services: the names of who exported them.
        url: its base.
    """

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.services: set[str] = set()
        self.url = ""

    def take(self, body: bytes) -> None:
        """Keep the spans of one export."""
        request = ExportTraceServiceRequest()
        request.ParseFromString(body)
        for resource in request.resource_spans:
            self.services.add(values(resource.resource.attributes)["service.name"])
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)

    def request(self, request_id: str) -> Span | None:
        """The span of a request, once it has come."""
        return next((span for span in self.spans if about(span).get("gen_ai.response.id") == request_id), None)

    def children(self, parent: Span) -> dict[str, Span]:
        """The spans below another that have come, by name."""
        return {span.name: span for span in self.spans if span.parent_span_id == parent.span_id}


def about(span: Span) -> dict[str, Any]:
    """A span's attributes."""
    return values(span.attributes)


def values(attributes: Iterator[KeyValue] | Any) -> dict[str, Any]:  # noqa: ANN401  protobuf's containers
    """Attributes as Python's values."""
    return {one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in attributes}


@contextmanager
def open_collector() -> Iterator[Collector]:
    """A collector on a free port, in a thread, while the scope lasts."""
    collector = Collector()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            collector.take(gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
