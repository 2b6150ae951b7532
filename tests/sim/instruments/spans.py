"""I17: the traces of requests."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from web.observability.tracing.tracer import RequestTracer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, Span
    from opentelemetry.trace import SpanContext

    from actors.core.receipts import Receipt
    from actors.engine import Engine
    from tests.sim.instruments.happened import Happened

PHASES = ("queued", "prefill", "decode")
NEXT = {("queued", "prefill"), ("prefill", "decode")}


def about(span: ReadableSpan) -> Mapping[str, Any]:
    """A span's attributes."""
    return span.attributes or {}


def identity(span: ReadableSpan) -> SpanContext:
    """Return which span of which trace it is."""
    context = span.get_span_context()
    assert context is not None
    return context


def began(span: ReadableSpan) -> int:
    """Return when a span began, in nanoseconds."""
    assert span.start_time is not None
    return span.start_time


def over(span: ReadableSpan) -> int:
    """Return when a span ended, in nanoseconds."""
    assert span.end_time is not None
    return span.end_time


class Kept(SpanProcessor):
    """Keeps each span that has ended, and counts those that were begun.

    Attributes:
        begun: how many.
        ended: all of them, in order.
    """

    def __init__(self) -> None:
        self.begun = 0
        self.ended: list[ReadableSpan] = []

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Count it."""
        self.begun += 1

    def on_end(self, span: ReadableSpan) -> None:
        """Keep it."""
        self.ended.append(span)


class Traced:
    """An engine's traces, in memory.

    Attributes:
        tracer: the real one, while it is attached and after that.
        kept: the spans.
    """

    def __init__(self) -> None:
        self.kept = Kept()
        self._provider = TracerProvider(shutdown_on_exit=False)
        self._provider.add_span_processor(self.kept)
        self.tracer: RequestTracer

    @contextmanager
    def watching(self, engine: Engine) -> Iterator[None]:
        """Trace an engine's requests while the scope lasts."""
        self.tracer = RequestTracer(
            self._provider.get_tracer("test"), "a-model", engine.manager.handle.now, engine.manager.wall
        )
        with engine.observed_by(self.tracer):
            yield

    @property
    def spans(self) -> list[ReadableSpan]:
        """Spans that have ended."""
        return self.kept.ended

    def requests(self) -> dict[str, ReadableSpan]:
        """The spans of requests that have ended, by the requests' ids."""
        return {about(span)["gen_ai.response.id"]: span for span in self.spans if "gen_ai.response.id" in about(span)}

    def children(self, parent: ReadableSpan) -> list[ReadableSpan]:
        """The spans below another, in the order in which they began."""
        return self._families()[identity(parent).span_id]

    def _families(self) -> dict[int, list[ReadableSpan]]:
        families: dict[int, list[ReadableSpan]] = defaultdict(list)
        for span in self.spans:
            if span.parent is not None:
                families[span.parent.span_id].append(span)
        for children in families.values():
            children.sort(key=lambda span: (began(span), over(span)))
        return families

    def check(self) -> None:
        """Raise AssertionError if a span is open, or is not within its parent, or phases do not follow one another."""
        assert self.tracer.live == 0, "I17: a request is left whose spans are open"
        assert self.kept.begun == len(self.spans), f"I17: {self.kept.begun} spans began, {len(self.spans)} ended"
        families, parents = self._families(), self.requests().values()
        below = sum(len(families[identity(parent).span_id]) for parent in parents)
        assert len(self.spans) == len(parents) + below, "I17: a span belongs to no request"
        for parent in parents:
            last: dict[int, ReadableSpan] = {}
            for span in families[identity(parent).span_id]:
                where = f"I17: {about(parent)['gen_ai.response.id']}: {span.name}"
                assert began(parent) <= began(span) <= over(span) <= over(parent), f"{where} is not within its request"
                index = about(span)["cede.generation.index"]
                if index in last:
                    assert over(last[index]) == began(span), f"{where} does not follow what was before"
                    assert (last[index].name, span.name) in NEXT, f"{where} comes after {last[index].name}"
                else:
                    assert span.name == PHASES[0], f"{where} is the first"
                last[index] = span

    def check_against(self, happened: Happened) -> None:
        """Raise AssertionError if the spans are not of what happened, or a cancel is not what its receipt says."""
        self.check()
        families, requests = self._families(), self.requests()
        assert sorted(requests) == sorted({asked.id for asked in happened.came}), "I17: other requests have spans"
        phases: dict[tuple[str, int], list[ReadableSpan]] = defaultdict(list)
        for name, span in requests.items():
            for child in families[identity(span).span_id]:
                phases[name, about(child)["cede.generation.index"]].append(child)
        assert sorted(phases) == sorted(happened.waited), "I17: other generations have spans than were in the queue"
        cancelled = Counter(name for name, _ in happened.receipts)
        for name, span in requests.items():
            assert len(span.events) == cancelled[name], f"I17: {name} has {len(span.events)} cancels"
        for key, children in phases.items():
            got = [child.name for child in children]
            assert ("prefill" in got) is (key in happened.slots), f"I17: {key}: {got}"
            *before, last = children
            marked = [child for child in before if "cede.cancel.reason" in about(child)]
            assert not marked, f"I17: {key}: a phase is cancelled that is not the last"
            receipt = happened.receipts.get(key)
            if receipt is None:
                assert "cede.cancel.reason" not in about(last), f"I17: {key} was not cancelled"
            else:
                _check_cancel(last, receipt)


def _check_cancel(span: ReadableSpan, receipt: Receipt) -> None:
    told = {name: value for name, value in about(span).items() if name.startswith("cede.cancel.")}
    assert told == {
        "cede.cancel.reason": receipt.reason.value,
        "cede.cancel.phase": receipt.phase,
        "cede.cancel.kept_tokens": receipt.kept_tokens,
        "cede.cancel.wasted_tokens": receipt.wasted_tokens,
        "cede.cancel.layers_after": receipt.layers_after_cancel,
    }, f"I17: the span says {told}; {receipt}"
    assert [event.timestamp for event in span.events] == [round(receipt.detected_at * 1e9)], f"I17: {receipt}"
    assert (span.name == "queued") is (receipt.phase == "queued"), f"I17: cancelled in {span.name}; {receipt}"
