"""Export of spans: to a collector, over HTTP, from a thread of the SDK's own.

The log is told once that the collector takes no traces, and once that it does again, in place of the SDK.
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import trio
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from runtime.common.log_text import literal
from runtime.common.units import counted
from web.observability.tracing.tracer import RequestTracer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from opentelemetry.sdk.trace import ReadableSpan

    from actors.engine import Engine

logger = logging.getLogger("cede.web")

FLUSH_SECONDS = 1.0  # that the server's end waits for a collector
# Who says "retrying" several times for each batch, and "queue full" while the batches wait.
SDK_LOGGERS = ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "opentelemetry.sdk._shared_internal")


class HeldBack(logging.Filter):
    """Lets no record through, and remembers the first of them.

    Attributes:
        said: that record's text, until it is taken away.
    """

    def __init__(self) -> None:
        super().__init__()
        self.said = ""

    def filter(self, record: logging.LogRecord) -> bool:
        """Remember a record."""
        self.said = self.said or record.getMessage()
        return False


class ToldExporter(SpanExporter):
    """Exports by another exporter, and tells when that begins to fail, and when it does so no more.

    The SDK's thread alone calls `export`.

    Args:
        exporter: that sends spans.
        held_back: what that one would have logged.
    """

    def __init__(self, exporter: SpanExporter, held_back: HeldBack) -> None:
        self._exporter = exporter
        self._held_back = held_back
        self._lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans; what cannot be sent is lost."""
        result = self._exporter.export(spans)
        why, self._held_back.said = self._held_back.said, ""
        if result is SpanExportResult.SUCCESS:
            if self._lost:
                logger.info("the collector takes traces again; lost: %s", counted(self._lost, "span"))
            self._lost = 0
        else:
            if not self._lost:
                logger.warning("the collector takes no traces, and they are lost until it does: %s", literal(why, 500))
            self._lost += len(spans)
        return result

    def shutdown(self) -> None:
        """End the other exporter."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush the other exporter."""
        return self._exporter.force_flush(timeout_millis)


@contextmanager
def told(exporter: SpanExporter) -> Iterator[ToldExporter]:
    """An exporter that tells in place of the SDK, until the scope ends."""
    held_back = HeldBack()
    loggers = [logging.getLogger(name) for name in SDK_LOGGERS]
    for each in loggers:
        each.addFilter(held_back)
    try:
        yield ToldExporter(exporter, held_back)
    finally:
        for each in loggers:
            each.removeFilter(held_back)


@asynccontextmanager
async def open_tracing(engine: Engine, environment: Mapping[str, str]) -> AsyncIterator[None]:
    """Export a trace of each request of an engine's, while the scope lasts.

    What was made is handed to the SDK's thread without waiting.  That keeps a bounded number of spans, and drops what
    is more; a collector that does not answer costs a line in the log, and one when it answers again.

    Args:
        engine: open.
        environment: may have the service's name; the SDK reads the rest of its variables itself.
    """
    is_named = "OTEL_SERVICE_NAME" in environment or "service.name=" in environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
    resource = Resource.create({} if is_named else {"service.name": "cede"})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    with told(OTLPSpanExporter()) as exporter:
        provider.add_span_processor(BatchSpanProcessor(exporter))
        tracer = RequestTracer(
            provider.get_tracer("cede"), engine.model.name, engine.manager.handle.now, engine.manager.wall
        )
        logger.info("a trace of each request is exported, as OTEL_ variables say")
        try:
            with engine.observed_by(tracer):
                yield
        finally:
            tracer.close()
            with trio.move_on_after(FLUSH_SECONDS, shield=True) as patience:
                await trio.to_thread.run_sync(provider.shutdown, abandon_on_cancel=True)
            if patience.cancelled_caught:
                logger.warning("the collector does not answer: the last traces are lost")
