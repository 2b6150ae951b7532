"""A collector that is down is one line in the log, and one more when it is back."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from web.observability.tracing.export import SDK_LOGGERS, told

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace import ReadableSpan

SDK = logging.getLogger(OTLPSpanExporter.__module__)


class Collector(SpanExporter):
    """Takes spans, or says three times that it does not."""

    def __init__(self) -> None:
        self.is_up = True
        self.taken = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Take spans, while it is up."""
        if self.is_up:
            self.taken += len(spans)
            return SpanExportResult.SUCCESS
        for seconds in (1, 2):
            SDK.warning("Transient error %s, retrying in %.2fs", "refused", seconds)
        SDK.error("Failed to export spans batch due to timeout")
        logging.getLogger(SDK_LOGGERS[1]).warning("Queue full, dropping Span.")
        return SpanExportResult.FAILURE


def test_it_is_told_once_that_it_is_down_and_once_that_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    collector, provider = Collector(), TracerProvider(shutdown_on_exit=False)
    with told(collector) as exporter:
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        for is_up in (True, False, False, False, True, True, False, True):
            collector.is_up = is_up
            provider.get_tracer("test").start_span("a span").end()
    assert collector.taken == 4
    down = (
        "the collector takes no traces, and they are lost until it does: 'Transient error refused, retrying in 1.00s'"
    )
    assert caplog.messages == [
        down,
        "the collector takes traces again; lost: 3 spans",
        down,
        "the collector takes traces again; lost: 1 span",
    ]


@pytest.mark.parametrize("name", SDK_LOGGERS)
def test_after_that_the_sdk_says_what_it_likes(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with told(Collector()):
        logging.getLogger(name).warning("not this")
    logging.getLogger(name).warning("but this")
    assert caplog.messages == ["but this"]


def test_the_sdks_exporter_logs_where_it_is_held_back() -> None:
    assert OTLPSpanExporter.__module__ in SDK_LOGGERS
