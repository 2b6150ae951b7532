"""The engine, and its slot manager, as frozen snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

# These are fields' types, which the schemas of what is shown are made of, too.
from actors.core.places.pages import PoolStatistics  # noqa: TC001
from actors.core.places.states import StateStatistics  # noqa: TC001
from actors.generating.unread import UnreadStatistics  # noqa: TC001
from actors.kv.prefix_cache import CacheStatistics  # noqa: TC001
from runtime.loading.served import Proposer  # noqa: TC001

if TYPE_CHECKING:
    from actors.manager.step_runner import StepCounts


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
    pool: PoolStatistics
    device_losses: int = 0
    last_step_seconds: float | None = None
    step_target_seconds: float = 0.0
    parks: int = 0
    resumes: int = 0
    parked: int = 0
    states: StateStatistics | None = None


@dataclass(frozen=True, slots=True)
class SpeculationStatistics:
    """Statistics of drafting since the start.

    Attributes:
        draft_steps, draft_rows: run on the drafter; some rows only read what was missed.
        verify_steps: rounds, of which one device step may hold several.
        drafted_tokens, accepted_tokens: in those rounds.
        acceptance_rate: None before the first.
    """

    proposer: Proposer
    draft_steps: int
    draft_rows: int
    verify_steps: int
    drafted_tokens: int
    accepted_tokens: int
    acceptance_rate: float | None


def speculation_statistics(proposer: Proposer, counts: StepCounts) -> SpeculationStatistics:
    """Return what drafting has brought, of what was counted."""
    return SpeculationStatistics(
        proposer=proposer,
        draft_steps=counts.draft_steps,
        draft_rows=counts.draft_rows,
        verify_steps=counts.verify_steps,
        drafted_tokens=counts.drafted,
        accepted_tokens=counts.accepted,
        acceptance_rate=counts.accepted / counts.drafted if counts.drafted else None,
    )


@dataclass(frozen=True, slots=True)
class EngineStatistics:
    """Counts since the start, and what is held now."""

    live_requests: int
    manager: ManagerStatistics
    speculation: SpeculationStatistics
    unread: UnreadStatistics
