"""Recorder of what the engine does, as it does it: an `Observer` that feeds the instruments.

Their names have neither prefix nor the model's label: `web.observability.metrics.dialects` adds those.  Where vLLM has
the same figure, it has vLLM's name.  Units are seconds and tokens.  No label has a value that clients choose, so the
number of series is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import Counter, Histogram

from actors.core.generation import Failed
from actors.core.observer import Observer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prometheus_client import CollectorRegistry

    from actors.core.events import (
        Emitted,
        Ended,
        Granted,
        Queued,
        Refused,
        Released,
        StepBegins,
        StepEnded,
        StepEvent,
        StepRaised,
    )
    from actors.core.receipts import Receipt
    from actors.core.slot_views import GenerationKey
    from runtime.errors import CedeError

WAITS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640)
STEPS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 2, 5, 10)
GAPS = (0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1)
TOKENS = tuple(2**power for power in range(18))
LAYERS = (0, 1, 2, 3, 5, 10)


class Instruments:
    """All of them, each counted once for a generation, a cancel or a step.

    Args:
        registry: gets them.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        def count(name: str, about: str, *labels: str) -> Counter:
            return Counter(name, about, labels, registry=registry)

        def spread(name: str, about: str, buckets: Sequence[float], *labels: str) -> Histogram:
            return Histogram(name, about, labels, buckets=buckets, registry=registry)

        # --- generations
        self.first_token = spread("time_to_first_token_seconds", "From the queue to the first token.", WAITS)
        self.between_tokens = spread(
            "inter_token_latency_seconds", "Between tokens of a stream; several that come at once count as one.", STEPS
        )
        self.whole = spread("e2e_request_latency_seconds", "From the queue to the end.", WAITS)
        self.queue = spread("request_queue_time_seconds", "From the queue to the slot.", WAITS)
        self.prefill = spread("request_prefill_time_seconds", "From the slot to the first token.", WAITS)
        self.decode = spread("request_decode_time_seconds", "From the first token to the end.", WAITS)
        self.prompt = spread("request_prompt_tokens", "Tokens of the prompt.", TOKENS)
        self.output = spread("request_generation_tokens", "Tokens of the output.", TOKENS)
        self.prompt_tokens = count("prompt_tokens", "Tokens of prompts that were read, those found in a cache, too.")
        self.output_tokens = count("generation_tokens", "Tokens of outputs.")
        self.cache_queries = count("prefix_cache_queries", "Tokens of prompts that caches were asked for.")
        self.cache_hits = count("prefix_cache_hits", "Tokens of prompts that did not have to be computed.")
        self.warmed = count("warmed_tokens", "Tokens of prompts that were read ahead of time, and kept.")
        self.ends = count("request_success", "Generations that ended, other than by an error.", "finished_reason")
        self.failures = count("request_failures", "Generations that ended by an error.", "code")
        self.refusals = count("requests_refused", "Requests that were given no place in the queue.", "code")

        # --- cancels
        self.cancels = count("cancels", "Generations that were cancelled: one receipt each.", "reason", "phase")
        self.last_kernel = spread(
            "cancel_last_kernel_seconds", "From a cancel to the end of its work on the device; 0 where none ran.", STEPS
        )
        self.slot_freed = spread("cancel_slot_freed_seconds", "From a cancel to its free slot.", STEPS)
        self.layers = spread("cancel_layers", "Layers that ran for a generation after its cancel.", LAYERS)
        self.kept = count("cancel_kept_tokens", "Tokens computed for cancelled generations, and kept for a retry.")
        self.wasted = count("cancel_wasted_tokens", "Tokens computed for cancelled generations, and dropped.")

        # --- steps
        self.steps = spread("step_seconds", "A step on the device, with the way there and back.", STEPS, "model")
        self.step_tokens = spread("step_tokens", "Rows of a step of the target.", TOKENS)
        self.gaps = spread("step_gap_seconds", "Between two steps while a generation held a slot throughout.", GAPS)


@dataclass(slots=True)
class _Times:
    """Times at which a generation reached its stages, on the recorder's clock; None before."""

    queued: float
    prompt_tokens: int
    granted: float | None = None
    first_token: float | None = None
    last_token: float = 0.0


class Recorder(Observer):
    """Knows of a generation from its place in the queue to its end, and of nothing longer.

    Args:
        instruments: are fed.
        clock: seconds that never go back.
    """

    def __init__(self, instruments: Instruments, clock: Callable[[], float]) -> None:
        self._to = instruments
        self._clock = clock
        self._live: dict[GenerationKey, _Times] = {}
        self._holders = 0
        self._step_began = 0.0
        self._rows = 0  # of that step
        self._idle_since: float | None = None  # the end of the last step, if somebody has held a slot ever since

    @property
    def live(self) -> int:
        """Number of generations that it knows of."""
        return len(self._live)

    # --- generations --------------------------------------------------------------------------------------------------

    def queued(self, event: Queued) -> None:
        """Note when a generation came."""
        self._live[event.key] = _Times(self._clock(), event.prompt_tokens)

    def refused(self, event: Refused) -> None:
        """Count a refusal."""
        self._to.refusals.labels(_code(event.error)).inc()

    def granted(self, event: Granted) -> None:
        """Note how long a generation waited for its slot."""
        self._holders += 1
        if (times := self._live.get(event.key)) is not None:
            times.granted = self._clock()
            self._to.queue.observe(times.granted - times.queued)

    def emitted(self, event: Emitted) -> None:
        """Count tokens, and note how long they took."""
        now = self._clock()
        self._to.output_tokens.inc(event.tokens)
        times = self._live.get(event.key)
        if times is None:  # it had come before anybody recorded
            return
        if times.first_token is not None:
            self._to.between_tokens.observe(now - times.last_token)
        else:
            times.first_token = now
            self._to.first_token.observe(now - times.queued)
            self._to.prompt_tokens.inc(times.prompt_tokens)
            if times.granted is not None:
                self._to.prefill.observe(now - times.granted)
        times.last_token = now

    def ended(self, event: Ended) -> None:
        """Count an end, and note how long the whole took."""
        last = event.last
        times = self._live.pop(event.key, None)
        if times is not None:
            now = self._clock()
            self._to.whole.observe(now - times.queued)
            if times.first_token is not None:
                self._to.decode.observe(now - times.first_token)
        if isinstance(last, Failed):
            self._to.failures.labels(_code(last.error)).inc()
            return
        self._to.ends.labels(last.reason.value).inc()
        self._to.prompt.observe(last.prompt_tokens)
        self._to.output.observe(last.completion_tokens)
        self._to.cache_queries.inc(last.prompt_tokens)
        self._to.cache_hits.inc(last.cached_tokens)
        if last.warmed_tokens is not None:
            self._to.warmed.inc(max(0, last.warmed_tokens - last.cached_tokens))

    def receipt(self, event: Receipt) -> None:
        """Count a cancel, and what it cost."""
        self._to.cancels.labels(event.reason.value, event.phase).inc()
        self._to.kept.inc(event.kept_tokens)
        self._to.wasted.inc(event.wasted_tokens)
        if event.slot_freed_at is not None:
            self._to.slot_freed.observe(max(0.0, event.slot_freed_at - event.detected_at))
            self._to.last_kernel.observe(max(0.0, (event.last_kernel_at or 0.0) - event.detected_at))
            self._to.layers.observe(event.layers_after_cancel)

    def released(self, event: Released) -> None:
        """Note that a slot is free; without holders no step is due."""
        if event.slot is not None:
            self._holders = max(0, self._holders - 1)  # some may have held one before anybody recorded
            if not self._holders:
                self._idle_since = None

    # --- steps --------------------------------------------------------------------------------------------------------

    def step_begins(self, event: StepBegins) -> None:
        """Note how long the device had nothing to do, though somebody held a slot."""
        self._step_began = self._clock()
        if self._idle_since is not None:
            self._to.gaps.observe(self._step_began - self._idle_since)
        self._rows = sum(len(part.token_ids) for part in event.parts)
        if not event.drafting:
            self._to.step_tokens.observe(self._rows)

    def step_ended(self, event: StepEnded) -> None:
        """Note how long the step took; of a burst, each of its steps in the mean."""
        for _ in range(event.result.steps - 1):  # as many rows as the first, each
            self._to.step_tokens.observe(self._rows)
        self._end_step(event, event.result.steps)

    def step_raised(self, event: StepRaised) -> None:
        """Note how long the step took, though it failed."""
        self._end_step(event)

    def _end_step(self, event: StepEvent, steps: int = 1) -> None:
        now, own = self._clock(), self._to.steps.labels("draft" if event.drafting else "target")
        for _ in range(steps):
            own.observe((now - self._step_began) / steps)
        self._idle_since = now if self._holders else None


def _code(error: CedeError) -> str:
    """Return the code of an error; there are few, all of cede's own making."""
    return error.code or error.kind
