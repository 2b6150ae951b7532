"""Names of the figures: cede's own, and for dashboards that exist vLLM's or llama-server's.

cede's names begin with `cede_`.  vLLM's and llama-server's have a colon, which Prometheus keeps for recording rules,
and which its own checker objects to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CREATED = "_created"

VLLM = {
    name: name
    for name in (
        "num_requests_running",
        "num_requests_waiting",
        "kv_cache_usage_perc",
        "prefix_cache_queries",
        "prefix_cache_hits",
        "prompt_tokens",
        "generation_tokens",
        "request_success",
        "request_prompt_tokens",
        "request_generation_tokens",
        "time_to_first_token_seconds",
        "inter_token_latency_seconds",
        "e2e_request_latency_seconds",
        "request_queue_time_seconds",
        "request_prefill_time_seconds",
        "request_decode_time_seconds",
        "spec_decode_num_drafts",
        "spec_decode_num_draft_tokens",
        "spec_decode_num_accepted_tokens",
    )
} | {"step_tokens": "iteration_tokens_total"}
"""cede's names, and vLLM's."""

VLLM_REASONS = {"cancelled": "abort"}
"""cede's values of `finished_reason`, and vLLM's, where they differ."""


class Named(Collector):
    """The figures of another collector, under a prefix and with constant labels.

    Args:
        figures: to be told.
        prefix: of the names.
        labels: each sample's.
        names: which ones, and as what; None for all, as they are.
        reasons: values of `finished_reason` that are to be others.
    """

    def __init__(
        self,
        figures: Collector,
        prefix: str,
        labels: Mapping[str, str],
        names: Mapping[str, str] | None = None,
        reasons: Mapping[str, str] | None = None,
    ) -> None:
        self._figures = figures
        self._prefix = prefix
        self._labels = dict(labels)
        self._names = names
        self._reasons = reasons or {}

    def collect(self) -> Iterator[Metric]:
        """Yield each under its new name, without the moments at which they were created."""
        for family in self._figures.collect():
            name = family.name if self._names is None else self._names.get(family.name)
            if name is not None:
                yield self._renamed(family, self._prefix + name)

    def _renamed(self, family: Metric, name: str) -> Metric:
        renamed = Metric(name, family.documentation, family.type)
        for sample in family.samples:
            if not sample.name.endswith(CREATED):
                labels = self._labels | sample.labels
                if (reason := self._reasons.get(labels.get("finished_reason", ""))) is not None:
                    labels["finished_reason"] = reason
                renamed.add_sample(name + sample.name[len(family.name) :], labels, sample.value)
        return renamed


class LlamaServer(Collector):
    """The figures that llama-server tells, under its names; it has no histograms and no labels.

    Args:
        figures: what they are computed of.
    """

    def __init__(self, figures: Collector) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        """Yield each."""
        told = _sums(self._figures)
        read, read_seconds = told["computed_tokens_total:prefill"], told["request_prefill_time_seconds_sum"]
        written, written_seconds = told["generation_tokens_total"], told["request_decode_time_seconds_sum"]
        counters = {
            "prompt_tokens": ("Tokens of prompts that were computed.", read),
            "prompt_tokens_cached": ("Tokens of prompts that were found.", told["prefix_cache_hits_total"]),
            "prompt_seconds": ("Time of reading prompts.", read_seconds),
            "tokens_predicted": ("Tokens of outputs.", written),
            "tokens_predicted_seconds": ("Time of writing them.", written_seconds),
            "n_decode": ("Steps.", told["steps_total"]),
            "spec_decode_num_drafts": ("Drafts verified.", told["spec_decode_num_drafts_total"]),
            "spec_decode_num_draft_tokens": ("Tokens drafted.", told["spec_decode_num_draft_tokens_total"]),
            "spec_decode_num_accepted_tokens": ("Of these, accepted.", told["spec_decode_num_accepted_tokens_total"]),
        }
        gauges = {
            "prompt_tokens_seconds": ("Tokens of prompts in a second.", _ratio(read, read_seconds)),
            "predicted_tokens_seconds": ("Tokens of outputs in a second.", _ratio(written, written_seconds)),
            "requests_processing": ("Generations that hold a slot.", told["num_requests_running"]),
            "requests_deferred": ("Generations that wait for one.", told["num_requests_waiting"]),
        }
        for name, (about, value) in counters.items():
            yield CounterMetricFamily(f"llamacpp:{name}", about, value)
        for name, (about, value) in gauges.items():
            yield GaugeMetricFamily(f"llamacpp:{name}", about, value)


def _sums(figures: Collector) -> Mapping[str, float]:
    """Return each sample's value by its name, and by name and value of a single label where it has one."""
    told: dict[str, float] = {}
    for family in figures.collect():
        for sample in family.samples:
            told[":".join((sample.name, *sample.labels.values()))] = sample.value
    return told


def _ratio(amount: float, seconds: float) -> float:
    return amount / seconds if seconds else 0.0
