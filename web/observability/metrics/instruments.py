"""The counters and histograms that are fed while the engine works.

Their names have neither prefix nor the model's label: `web.observability.metrics.dialects` adds those.  Where vLLM has
the same figure, it has vLLM's name.  Units are seconds and tokens.  No label has a value that clients choose, so the
number of series is bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Histogram

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prometheus_client import CollectorRegistry

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
