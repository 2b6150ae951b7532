"""The share of scenarios that have preemption, sharing, groups, detaches, priorities, bursts: drawn, seen."""

from __future__ import annotations

from collections import Counter

from tests.fakes.kv_simulation import KVSimulation
from tests.sim.scenario import Scenario

NAMES = ("parks", "sharing", "copied pages", "groups", "detaches", "priorities", "bursts")


def drawn(scenario: Scenario) -> dict[str, bool]:
    """Return which of `NAMES` a scenario is made for, before it is played."""
    visits = scenario.visits
    return {
        "parks": scenario.preemption == "on",
        "sharing": True,
        "copied pages": True,
        "groups": any(visit.control.group is not None for visit in visits),
        "detaches": any(visit.leaving is not None and visit.leaving.is_detached for visit in visits),
        "priorities": len({visit.priority for visit in visits}) > 1,
        "bursts": scenario.burst_seconds is not None,
    }


def seen(sim: KVSimulation) -> dict[str, bool]:
    """Return which of `NAMES` have come to pass in one that was played."""
    counts = sim.manager.table.pages.counts
    stories = [story for story in sim.stories.values() if story.opened]
    return {
        "parks": sim.engine.statistics().manager.parks > 0,
        "sharing": counts.shared_tokens > 0,
        "copied pages": counts.copied_pages > 0,
        "groups": any(story.asked.control.group is not None for story in stories),
        "detaches": any(story.went_on and story.asked.control.on_disconnect == "detach" for story in stories),
        "priorities": len({story.asked.priority for story in stories}) > 1,
        "bursts": sim.watch.bursts.further > 0,
    }


def line(drawn: Counter[str], seen: Counter[str], scenarios: int) -> str:
    """Return both shares of each, in per cent."""
    whole = max(1, scenarios)
    return ", ".join(f"{name} {drawn[name] / whole:.0%} ({seen[name] / whole:.0%})" for name in NAMES)
