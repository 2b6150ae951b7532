"""An `Observer` that makes a trace of each request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.core.observer import Observer
from web.observability.tracing.request_trace import PREFILL, QUEUED, RequestTrace

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.trace import Tracer

    from actors.core.events import Arrived, Departed, Emitted, Ended, Granted, Queued, Refused
    from actors.core.receipts import Receipt, WallClock


class RequestTracer(Observer):
    """Knows of a request from its coming to its end, and of nothing longer.

    Args:
        tracer: makes the spans.
        model: its name.
        clock: seconds, which no setting of the machine's clock changes; a trace's times are by it.
        wall: the time in seconds since the epoch, at which a trace begins.
    """

    def __init__(self, tracer: Tracer, model: str, clock: Callable[[], float], wall: WallClock) -> None:
        self._tracer = tracer
        self._model = model
        self._clock = clock
        self._wall = wall
        self._live: dict[str, RequestTrace] = {}

    @property
    def live(self) -> int:
        """Number of requests with open spans."""
        return len(self._live)

    def arrived(self, event: Arrived) -> None:
        """Open the request's span; another request under the same name, which will be refused, gets none."""
        if event.asked.id not in self._live:
            self._live[event.asked.id] = RequestTrace(self._tracer, event.asked, self._model, self._clocked())

    def departed(self, event: Departed) -> None:
        """End what is open of a request."""
        trace = self._live.get(event.asked.id)
        if trace is not None and trace.asked is event.asked:
            del self._live[event.asked.id]
            trace.end()

    def refused(self, event: Refused) -> None:
        """Note why a request was not let in."""
        if (trace := self._live.get(event.request_id)) is not None:
            trace.refuse(event.error)

    def queued(self, event: Queued) -> None:
        """Begin a generation's wait."""
        if (trace := self._live.get(event.request_id)) is not None:
            attributes = {"gen_ai.usage.input_tokens": event.prompt_tokens}
            trace.enter(event.index, QUEUED, attributes)

    def granted(self, event: Granted) -> None:
        """Begin a generation's prefill."""
        if (trace := self._live.get(event.request_id)) is not None:
            attributes = {"cede.slot": event.slot, "cede.resident_tokens": event.cached_tokens}
            trace.enter(event.index, PREFILL, attributes)

    def emitted(self, event: Emitted) -> None:
        """Count tokens; the first ones begin a generation's decoding."""
        if (trace := self._live.get(event.request_id)) is not None:
            trace.add_tokens(event.index, event.tokens)

    def receipt(self, event: Receipt) -> None:
        """Note a cancel."""
        if (trace := self._live.get(event.request_id)) is not None:
            trace.note_cancel(event, self._wall.ago(event.detected_at))

    def ended(self, event: Ended) -> None:
        """End a generation's phase."""
        if (trace := self._live.get(event.request_id)) is not None:
            trace.end_generation(event.index, event.last)

    def close(self) -> None:
        """End what is open: of requests whose end was not told, for the server's end is."""
        live, self._live = self._live, {}
        for trace in live.values():
            trace.end()

    def _clocked(self) -> Callable[[float], int]:
        """Return what tells a trace the time, so many seconds ago, in nanoseconds since the epoch."""
        ahead = self._wall.now() - self._clock()
        return lambda ago: round((self._clock() + ahead - ago) * 1e9)
