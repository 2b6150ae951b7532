"""The slot manager as a frozen snapshot."""

from __future__ import annotations

from dataclasses import dataclass

# These are fields' types, which the schemas of what is shown are made of, too.
from actors.core.places.extents import ArenaStatistics  # noqa: TC001
from actors.core.places.states import StateStatistics  # noqa: TC001
from actors.kv.prefix_cache import CacheStatistics  # noqa: TC001


@dataclass(frozen=True, slots=True)
class ManagerStatistics:
    """The slot manager's counts since the start, and what it holds now.

    Attributes:
        cancels: by reason.
        last_step_seconds: of the newest step of the target; None before the first.
        step_target_seconds: what a step with as many decode rows as that one may take, if it has rows of prompts, too.
        parks: how often a generation left its slot to a more important one.
        resumes: how often one of them had a slot again.
        parked: those of the queued that wait for that.
        states: buffers for the states of recurrent layers; None where the model has none.
    """

    steps: int
    rows: int
    decode_tokens: int
    prefill_tokens: int
    failed_steps: int
    queued: int
    leased: int
    slots: int
    cancels: dict[str, int]
    cache: CacheStatistics
    arena: ArenaStatistics
    device_losses: int = 0
    last_step_seconds: float | None = None
    step_target_seconds: float = 0.0
    parks: int = 0
    resumes: int = 0
    parked: int = 0
    states: StateStatistics | None = None
