"""The benchmarks, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.client.scenarios.cache import Cache
from bench.client.scenarios.cascade import Cascade, Neighbours
from bench.client.scenarios.goodput import Goodput
from bench.client.scenarios.hangup import Hangup, Retry
from bench.client.scenarios.hostile import Hostile
from bench.client.scenarios.prefill import Depth, Prefill
from bench.client.scenarios.soak import Soak
from bench.client.scenarios.speculate import Speculate
from bench.client.scenarios.throughput import Throughput

if TYPE_CHECKING:
    from bench.client.harness.turn import Scenario

SCENARIOS: dict[str, type[Scenario]] = {
    scenario.name: scenario
    for scenario in (
        Throughput,
        Prefill,
        Depth,
        Hangup,
        Retry,
        Cascade,
        Neighbours,
        Goodput,
        Cache,
        Speculate,
        Soak,
        Hostile,
    )
}
