"""The spans of one request: its own, and one for the phase that each of its generations is in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from actors.core.generation import Failed

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

    from actors.core.generation import Finished, GenerationRequest, TraceContext
    from actors.core.receipts import Receipt
    from runtime.errors import CedeError

QUEUED, PREFILL, DECODE = "queued", "prefill", "decode"


class _Phase:
    """The phase that a generation is in, with its span, and the tokens that it has generated."""

    def __init__(self) -> None:
        self.name = ""
        self.span: Span | None = None
        self.tokens = 0


class RequestTrace:
    """Made when a request comes; `end` it when it goes.  Times are nanoseconds since the epoch.

    Args:
        tracer: makes the spans.
        asked: the request; the trace that it names has the request's span as a child.
        model: its name.
        clock: the time, so many seconds ago.
    """

    def __init__(self, tracer: Tracer, asked: GenerationRequest, model: str, clock: Callable[[float], int]) -> None:
        self.asked = asked
        self._tracer = tracer
        self._clock = clock
        self._phases: dict[int, _Phase] = {}
        self._span = tracer.start_span(
            f"{operation_of(asked)} {model}",
            _remote(asked.trace),
            SpanKind.SERVER,
            request_attributes(asked, model),
            start_time=clock(0),
        )
        self._within = set_span_in_context(self._span)
        self._reasons: list[str] = []
        self._cached = 0
        self._is_wrong = False
        self._was_let_in = False

    def enter(self, index: int, name: str, attributes: Attributes | None = None) -> None:
        """Begin another phase of a generation, and so end the one before."""
        self._was_let_in = True
        at = self._clock(0)
        phase = self._phases.setdefault(index, _Phase())
        if phase.span is not None:
            phase.span.end(at)
        about = {"cede.generation.index": index, **(attributes or {})}
        phase.name, phase.span = name, self._tracer.start_span(name, self._within, attributes=about, start_time=at)

    def add_tokens(self, index: int, tokens: int) -> None:
        """Note tokens of a generation; the first of them end its prefill."""
        phase = self._phases.get(index)
        if phase is not None:
            if phase.name != DECODE:
                self.enter(index, DECODE)
            phase.tokens += tokens

    def note_cancel(self, receipt: Receipt, ago: float) -> None:
        """Put the reason of a cancel, `ago` seconds, on the request's span, and on that of the phase that it ended."""
        attributes = cancel_attributes(receipt)
        at = self._clock(ago)
        phase = self._phases.get(receipt.index)
        for span in (self._span, phase.span if phase is not None else None):
            if span is not None:
                span.set_attributes(attributes)
                span.add_event("cancelled", {"cede.generation.index": receipt.index}, timestamp=at)
                self._fail(span, receipt.reason.value, f"cancelled: {receipt.reason} in {receipt.phase}")

    def end_generation(self, index: int, last: Finished | Failed) -> None:
        """End the phase that a generation is in, with how it ended."""
        phase = self._phases.get(index)
        if phase is None or phase.span is None:
            return
        if isinstance(last, Failed):
            self._reasons.append("error")
            self._fail(phase.span, code_of(last.error), f"failed: {code_of(last.error)}")
            self._fail(self._span, code_of(last.error), f"failed: {code_of(last.error)}")
        else:
            self._reasons.append(last.reason.value)
            self._cached += last.cached_tokens
            if phase.name == DECODE:
                phase.span.set_attributes(decode_attributes(last, phase.tokens))
        phase.span.end(self._clock(0))
        phase.span = None

    def refuse(self, error: CedeError) -> None:
        """Note that the request was not let in."""
        self._was_let_in = True
        self._fail(self._span, code_of(error), f"refused: {code_of(error)}")

    def end(self) -> None:
        """End whatever is open; nothing may be noted after that."""
        at = self._clock(0)
        for phase in self._phases.values():
            if phase.span is not None:
                phase.span.end(at)
        if not self._was_let_in:
            self._fail(self._span, "cancelled", "cancelled: before it was queued")
        self._span.set_attributes(
            {
                "gen_ai.usage.output_tokens": sum(phase.tokens for phase in self._phases.values()),
                "gen_ai.usage.cache_read.input_tokens": self._cached,
                "gen_ai.response.finish_reasons": self._reasons,
            }
        )
        self._span.end(at)

    def _fail(self, span: Span, kind: str, description: str) -> None:
        span.set_attribute("error.type", kind)
        span.set_status(Status(StatusCode.ERROR, description))


def code_of(error: CedeError) -> str:
    """Return the code of an error, which is never a client's text."""
    return error.code or error.kind


def _remote(trace: TraceContext | None) -> Context | None:
    """The context that a client's headers name; what is not well-formed names none."""
    if trace is None:
        return None
    headers = {"traceparent": trace.traceparent} | ({"tracestate": trace.tracestate} if trace.tracestate else {})
    return TraceContextTextMapPropagator().extract(headers)


# --- attributes: names of OpenTelemetry's conventions for generative AI where there are some, else `cede.` ------------
# https://opentelemetry.io/docs/specs/semconv/gen-ai/

Attributes = Mapping[str, str | int | float | list[str]]


def operation_of(asked: GenerationRequest) -> str:
    """Return what is asked of the model, in the conventions' words."""
    if asked.outputs.pooling is not None:
        return "embeddings"
    return "text_completion" if asked.continues else "chat"


def request_attributes(asked: GenerationRequest, model: str) -> Attributes:
    """Return what is known of a request when it comes; nothing of its text."""
    sampling = asked.sampling
    known = {
        "gen_ai.operation.name": operation_of(asked),
        "gen_ai.provider.name": "cede",
        "gen_ai.request.model": model,
        "gen_ai.response.model": model,
        "gen_ai.response.id": asked.id,
        "gen_ai.request.max_tokens": asked.max_tokens,
        "gen_ai.request.temperature": sampling.temperature,
        "gen_ai.request.top_p": sampling.top_p,
        "gen_ai.request.top_k": sampling.top_k or None,
        "gen_ai.request.presence_penalty": sampling.presence_penalty or None,
        "gen_ai.request.frequency_penalty": sampling.frequency_penalty or None,
        "gen_ai.request.seed": sampling.seed if sampling.reproducible else None,
        "gen_ai.usage.input_tokens": sum(map(len, asked.prompts)),
        "cede.generations": len(asked.prompts),
        "cede.key": asked.owner,
    }
    return {name: value for name, value in known.items() if value is not None}


def decode_attributes(last: Finished, tokens: int) -> Attributes:
    """Return what came of a generation, for the span of its decoding."""
    return {
        "gen_ai.usage.output_tokens": tokens,
        "cede.draft.tokens": last.timings.draft_n,
        "cede.draft.accepted_tokens": last.timings.draft_n_accepted,
    }


def cancel_attributes(receipt: Receipt) -> Attributes:
    """Return why and where a generation was cancelled, and what that cost."""
    return {
        "cede.cancel.reason": receipt.reason.value,
        "cede.cancel.phase": receipt.phase,
        "cede.cancel.kept_tokens": receipt.kept_tokens,
        "cede.cancel.wasted_tokens": receipt.wasted_tokens,
        "cede.cancel.layers_after": receipt.layers_after_cancel,
    }
