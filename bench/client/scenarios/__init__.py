"""The benchmarks of `cede bench run`: a frozen dataclass each, listed by name in `SCENARIOS`.

A scenario rests on `bench.client.harness`, and `hostile` on `bench.client.attacks`, too.  To add one, write a class
with a `name`, fields made by `harness.turn.size`, and `measure`; then list it here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.client.scenarios.autocomplete import Autocomplete
from bench.client.scenarios.cache import Cache
from bench.client.scenarios.cascade import Cascade, Neighbours
from bench.client.scenarios.goodput import Goodput
from bench.client.scenarios.hangup import Hangup, Retry
from bench.client.scenarios.hostile import Hostile
from bench.client.scenarios.impatience import Impatience
from bench.client.scenarios.nudge import Nudge
from bench.client.scenarios.prefill import Depth, Prefill
from bench.client.scenarios.priorities import Priorities
from bench.client.scenarios.sampling import Sampling
from bench.client.scenarios.soak import Soak
from bench.client.scenarios.speculate import Speculate
from bench.client.scenarios.throughput import Throughput

if TYPE_CHECKING:
    from bench.client.harness.turn import Scenario

SCENARIOS: dict[str, type[Scenario]] = {
    scenario.name: scenario
    for scenario in (
        Throughput,
        Sampling,
        Prefill,
        Depth,
        Hangup,
        Retry,
        Impatience,
        Autocomplete,
        Cascade,
        Neighbours,
        Priorities,
        Goodput,
        Cache,
        Nudge,
        Speculate,
        Soak,
        Hostile,
    )
}
