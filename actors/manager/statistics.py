"""The slot manager as a frozen snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.core.places.extents import ArenaStatistics
    from actors.kv.prefix_cache import CacheStatistics


@dataclass(frozen=True, slots=True)
class ManagerStatistics:
    """Statistics of the manager since the start, and of what it holds now.

    Attributes:
        last_step_seconds: of the newest step of the target; None before the first.
        parks, resumes: how often a generation left its slot to a more important one, and had one again.
        parked: how many wait for that now; they are among the queued.
        step_target_seconds: what a step with as many decode rows as that one may take, if it has rows of prompts, too.
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
