"""The engine as a frozen snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

# These are fields' types, which the schemas of what is shown are made of, too.
from actors.generating.unread import UnreadStatistics  # noqa: TC001
from actors.manager.statistics import ManagerStatistics  # noqa: TC001
from runtime.loading.served import Proposer  # noqa: TC001

if TYPE_CHECKING:
    from actors.manager.step_runner import StepCounts


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
