"""I19: the metrics."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import AbstractContextManager

import trio
from prometheus_client import CollectorRegistry

from actors.engine import Engine
from tests.sim.instruments.happened import Happened
from web.observability.metrics.recorder import Instruments, Recorder


class Counted:
    """A registry with a recorder that feeds it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.recorder = Recorder(Instruments(self.registry), trio.current_time)

    def watching(self, engine: Engine) -> AbstractContextManager[None]:
        """Count what an engine does while the scope lasts."""
        return engine.observed_by(self.recorder)

    def samples(self) -> dict[str, dict[tuple[str, ...], float]]:
        """Return all of them by name, and by the values of their labels in the order of the labels' names."""
        told: dict[str, dict[tuple[str, ...], float]] = defaultdict(dict)
        for family in self.registry.collect():
            for sample in family.samples:
                told[sample.name][tuple(value for _, value in sorted(sample.labels.items()))] = sample.value
        return told

    def __getitem__(self, name: str) -> float:
        """Return the value of one that has no labels; 0 where there is none."""
        return self.registry.get_sample_value(name) or 0.0

    def labelled(self, name: str) -> dict[tuple[str, ...], float]:
        """Return the samples of a family."""
        return self.samples()[name]

    def check(self, happened: Happened) -> None:
        """Raise AssertionError if the counters are not the sums of receipts, ends, refusals and tokens."""
        assert self.recorder.live == 0, "I19: a generation is left that is over"
        told, receipts = self.samples(), happened.receipts.values()
        true = Counter((receipt.phase, receipt.reason.value) for receipt in receipts)
        assert told["cancels_total"] == true, f"I19: the receipts are {true}"
        for name, field in (("kept", "kept_tokens"), ("wasted", "wasted_tokens")):
            tokens = sum(getattr(receipt, field) for receipt in receipts)
            assert told[f"cancel_{name}_tokens_total"] == {(): tokens}, f"I19: {tokens} tokens were {name}"
        held = [receipt for receipt in receipts if receipt.slot_freed_at is not None]
        for name in ("cancel_slot_freed_seconds", "cancel_layers"):
            assert told[f"{name}_count"] == {(): len(held)}, f"I19: {len(held)} cancels of who held a slot"
        layers = sum(receipt.layers_after_cancel for receipt in held)
        assert told["cancel_layers_sum"] == {(): layers}, f"I19: {layers} layers ran after cancels"
        for name, count in (
            ("request_generation_tokens_count", _successes(told)),
            ("requests_refused_total", len(happened.turned_away)),
            ("generation_tokens_total", happened.tokens),
        ):
            assert sum(told[name].values()) == count, f"I19: {name} is {told[name]}, not {count}"
        ends = _successes(told) + sum(told["request_failures_total"].values())
        assert ends == len(happened.over), f"I19: {len(happened.over)} ended, and {ends} are counted"


def _successes(told: dict[str, dict[tuple[str, ...], float]]) -> float:
    return sum(told["request_success_total"].values())
