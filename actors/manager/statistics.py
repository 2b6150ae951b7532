"""The slot manager as a frozen snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.kv.prefix_cache import CacheStatistics


@dataclass(frozen=True, slots=True)
class ManagerStatistics:
    """What the manager has done since the start, and what it holds now."""

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
    device_losses: int = 0
