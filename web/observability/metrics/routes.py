"""The route of the metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quart_trio.wrappers import TrioResponse as Response

from web.http.asgi import current_request

if TYPE_CHECKING:
    from web.http.asgi import ScopedApp
    from web.observability.metrics.metrics import Metrics


def add_routes(app: ScopedApp, metrics: Metrics) -> None:
    """Add it to an application."""

    @app.get("/metrics")
    async def tell() -> Response:
        page, media_type = metrics.page(current_request().headers.get("Accept", ""))
        return Response(page, content_type=media_type)
