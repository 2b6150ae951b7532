"""All metrics of one engine: fed while it works, read when it is asked, told in the dialects that are wanted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from quart_trio.wrappers import TrioResponse as Response

from web.http.asgi import current_request
from web.observability.metrics.dialects import VLLM, VLLM_REASONS, LlamaServer, Named
from web.observability.metrics.recorder import Instruments, Recorder
from web.observability.metrics.snapshot import Snapshot
from web.openapi.operations import Reply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from prometheus_client.core import Metric

    from actors.engine import Engine
    from web.openapi.operations import Api
    from web.storage.detached.runs import Runs


class Metrics(Collector):
    """Metrics that `GET /metrics` tells.

    Args:
        engine: whose.
        compat: whose names are told beside cede's: `vllm`, `llamacpp` or `none`.
        clock: seconds that never go back.
        runs: its requests that may outlive their clients; None where there are none.
    """

    def __init__(
        self,
        engine: Engine,
        compat: str = "none",
        clock: Callable[[], float] = time.monotonic,
        runs: Runs | None = None,
    ) -> None:
        self._engine = engine
        figures = CollectorRegistry()
        figures.register(Snapshot(engine, runs))
        self._recorder = Recorder(Instruments(figures), clock)
        self._openmetrics = compat == "none"
        model = {"model_name": engine.model.name}
        self._told: list[Collector] = [Named(figures, "cede_", model), ProcessCollector(registry=None)]
        if compat == "vllm":
            self._told.append(Named(figures, "vllm:", model | {"engine": "0"}, VLLM, VLLM_REASONS))
        elif compat == "llamacpp":
            self._told.append(LlamaServer(figures))

    def fed(self) -> AbstractContextManager[None]:
        """Be told what the engine does, until the scope ends."""
        return self._engine.observed_by(self._recorder)

    def collect(self) -> Iterator[Metric]:
        """Yield all of it."""
        for collector in self._told:
            yield from collector.collect()

    def page(self, accept: str) -> tuple[bytes, str]:
        """Return the figures as text, and its media type, in the format that a client asks for.

        Args:
            accept: the header; OpenMetrics is written for those who name it, else Prometheus's text.  Where there are
                names with a colon it is always that, since `prometheus_client` takes the colon out of OpenMetrics'.
        """
        encode, media_type = choose_encoder(accept if self._openmetrics else "")
        return encode(self), media_type


def add_routes(api: Api, engine_metrics: Metrics) -> None:
    """Add it to an API."""

    @api.get("/metrics", {200: Reply("The figures.", {"text/plain": None, "application/openmetrics-text": None})})
    async def metrics() -> Response:
        """Get the engine's metrics, in Prometheus's text format or in OpenMetrics'."""
        page, media_type = engine_metrics.page(current_request().headers.get("Accept", ""))
        return Response(page, content_type=media_type)
