"""The route of the metrics, for the OpenAPI document."""

from __future__ import annotations

from web.openapi.operations import Operation, Reply

OPERATIONS = (
    Operation(
        "get",
        "/metrics",
        "metrics",
        "What the engine does, in Prometheus's text or in OpenMetrics'",
        {200: Reply("The figures.", {"text/plain": None, "application/openmetrics-text": None})},
    ),
)
