"""The route of the metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quart_trio.wrappers import TrioResponse as Response

from web.http.asgi import current_request
from web.openapi.operations import Reply

if TYPE_CHECKING:
    from web.observability.metrics.metrics import Metrics
    from web.openapi.operations import Api


def add_routes(api: Api, engine_metrics: Metrics) -> None:
    """Add it to an API."""

    @api.get("/metrics", {200: Reply("The figures.", {"text/plain": None, "application/openmetrics-text": None})})
    async def metrics() -> Response:
        """Get the engine's metrics, in Prometheus's text format or in OpenMetrics'."""
        page, media_type = engine_metrics.page(current_request().headers.get("Accept", ""))
        return Response(page, content_type=media_type)
