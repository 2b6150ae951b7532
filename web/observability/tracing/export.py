"""Export of spans: to a collector, over HTTP, from a thread of the SDK's own."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from actors.engine import Engine

logger = logging.getLogger("cede.web")

FLUSH_SECONDS = 1.0  # that the server's end waits for a collector


@asynccontextmanager
async def open_tracing(engine: Engine, environment: Mapping[str, str]) -> AsyncIterator[None]:
    """Export a trace of each request of an engine's, while the scope lasts.

    What was made is handed to the SDK's thread without waiting.  That keeps a bounded number of spans, and drops what
    is more; a collector that does not answer costs a line in the log, and one when it answers again.

    Args:
        engine: open.
        environment: may have the service's name; the SDK reads the rest of its variables itself.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from web.observability.tracing.collector import told
    from web.observability.tracing.tracer import RequestTracer

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
